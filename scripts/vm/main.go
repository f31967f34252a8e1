// Command vm opens the console of vionet inside a virtual machine, on two
// virtio-net functions that are bound to vfio-pci and plugged into one hub.
//
//	go run ./scripts/vm [testpmd options]
//
// The options are those behind the "--" of vionet testpmd; -i is the default.
// The guest is emulated: it needs QEMU, but neither root nor KVM. Ctrl-] cuts
// the guest's power.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"vionet/scripts/lab"
)

// The keys that mean something here: Ctrl-] cuts the power, and Ctrl-D at the
// start of a line is the end of the guest's input.
const (
	escape     = 0x1d
	endOfInput = 0x04
)

// session is how long a guest may run: longer than anybody works at a prompt.
const session = 24 * time.Hour

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	status, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "vm: %v\n", err)
		os.Exit(1)
	}
	os.Exit(status)
}

// run boots the guest, connects the terminal with it and waits for its end.
func run(ctx context.Context, options []string) (int, error) {
	ctx, cutPower := context.WithCancel(ctx)
	defer cutPower()
	dir, err := os.MkdirTemp("", "vionet-vm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	program, err := lab.Build(ctx, dir, "./cmd/vionet")
	if err != nil {
		return 0, err
	}
	if len(options) == 0 {
		options = []string{"-i"}
	}
	stdin := int(os.Stdin.Fd())
	person := term.IsTerminal(stdin)
	cfg := lab.Config{
		Program: append([]string{"/bin/vionet", "testpmd", "--"}, options...),
		Files:   map[string]string{"/bin/vionet": program},
		Env:     []string{"TERM=dumb"},
		NICs:    []lab.NIC{{Net: lab.Hub(0)}, {Net: lab.Hub(0)}},
		CPUs:    2, // one forwards, one has the console
		Timeout: session,
		Mirror:  os.Stdout,
		Person:  person,
	}
	if person {
		cfg.Env = []string{"TERM=" + os.Getenv("TERM")}
		cfg.Cols, cfg.Rows, _ = term.GetSize(stdin) // 0 stands for the default
	}
	g, err := lab.Start(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer g.Close()
	if person {
		before, err := term.MakeRaw(stdin)
		if err != nil {
			return 0, err
		}
		defer term.Restore(stdin, before)
	}
	go connect(ctx, g, cutPower)
	status, err := g.Wait(ctx)
	if ctx.Err() != nil {
		err = errors.New("the guest's power was cut")
	}
	return status, err
}

// connect carries input to the guest once it listens: what comes earlier its
// serial line would lose. The end of the input is passed on.
func connect(ctx context.Context, g *lab.Guest, cutPower func()) {
	if _, err := g.Expect(ctx, lab.Prompt); err != nil {
		return // Wait tells why the guest ended
	}
	chunk := make([]byte, 256)
	for {
		n, err := os.Stdin.Read(chunk)
		if bytes.IndexByte(chunk[:n], escape) >= 0 {
			cutPower()
			return
		}
		_, _ = g.Write(chunk[:n])
		if err == io.EOF {
			_, _ = g.Write([]byte{endOfInput})
		}
		if err != nil {
			return
		}
	}
}
