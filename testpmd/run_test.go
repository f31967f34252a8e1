package testpmd

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/port"
)

const farewell = `
Stopping port 0...
Stopping ports...
Done

Shutting down port 0...
Closing ports...
Port 0 is closed
Done

Bye...
`

const welcome = `Interactive-mode selected
testpmd: create a new mbuf pool <mb_pool_0>: n=2048, size=2176, socket=0

Warning! port-topology=paired and odd forward ports number, the last port will pair with itself.

Configuring Port 0 (socket 0)
virtio: using mergeable buffer Rx path on port 0
virtio: using simple Tx path on port 0
Port 0: 52:54:00:58:D7:01
Checking link statuses...
Done
`

func TestB26PipedSessionIsCompleteAndInOrder(t *testing.T) {
	for input, want := range map[string]string{
		"show config cores\n\nset burst 600\nquit\nshow config cores\n": welcome + `testpmd> show config cores
List of forwarding lcores:  1
testpmd> 
testpmd> set burst 600
nb pkt per burst: 600 > 512 (maximum packet per burst)  ignored
testpmd> quit
` + farewell,
		"":                           welcome + "testpmd> \n" + farewell,
		"show config cores":          welcome + "testpmd> show config cores\nList of forwarding lcores:  1\ntestpmd> \n" + farewell,
		"set fwd mac\r\nport stop 0": welcome + "testpmd> set fwd mac\nSet mac packet forwarding mode\ntestpmd> port stop 0\nStopping ports...\nChecking link statuses...\nDone\ntestpmd> \n" + farewell,
	} {
		b := newBench(t, 1, nil)
		if err := b.Run(context.Background(), strings.NewReader(input)); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, b.out.take()); diff != "" {
			t.Errorf("input %q: (-want +got)\n%s", input, diff)
		}
	}
}

func TestB26PortsStopBeforeAnyIsClosed(t *testing.T) {
	b := newBench(t, 2, nil)
	var order []string
	for _, p := range b.fakes {
		p.calls = nil
	}
	if err := b.Run(context.Background(), strings.NewReader("start\n")); err != nil {
		t.Fatal(err)
	}
	for _, p := range b.fakes {
		order = append(order, strings.Join(p.calls, " "))
	}
	if diff := cmp.Diff([]string{"configure start stop close", "configure start stop close"}, order); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	out := b.out.take()
	if strings.Index(out, "Shutting down port 0") < strings.Index(out, "Stopping port 1") || !strings.Contains(out, "Waiting for lcores to finish...") {
		t.Errorf("%s", out)
	}
	if b.pool.Free() != b.pool.Size() {
		t.Errorf("%d of %d buffers are back", b.pool.Free(), b.pool.Size())
	}
}

// runIn runs the console with a pipe for input and gives the means to end it.
func runIn(t *testing.T, b *bench) (cancel func(), wait func() error) {
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, r) }()
	return stop, func() error {
		select {
		case err := <-done:
			w.Close()
			return err
		case <-time.After(10 * time.Second):
			t.Fatal("the console does not end")
			return nil
		}
	}
}

func TestB26SignalEndsAsQuitDoes(t *testing.T) {
	b := newBench(t, 1, nil)
	cancel, wait := runIn(t, b)
	cancel()
	if err := wait(); err != nil {
		t.Error(err)
	}
	if out := b.out.take(); strings.Count(out, farewell) != 1 || strings.Count(out, "Bye...") != 1 {
		t.Errorf("%s", out)
	}
}

func TestBrokenCoreEndsInOrder(t *testing.T) {
	b := newBench(t, 1, func(c *Config) { c.Options.AutoStart, c.Options.FlushRx = true, false })
	b.fakes[0].explode = true
	_, wait := runIn(t, b)
	if err := wait(); err == nil || !strings.Contains(err.Error(), "forwarding on lcore 1 broke down: out of order") {
		t.Errorf("%v", err)
	}
	if out := b.out.take(); !strings.HasSuffix(out, farewell) {
		t.Errorf("%s", out)
	}
}

func TestStopHasALimit(t *testing.T) {
	b := startedBench(t, 1, func(c *Config) { c.Options.FlushRx = false })
	b.run("start")
	f := b.fwd
	hold := make(chan struct{})
	q := b.fakes[0].queues[0]
	q.mu.Lock()
	b.fakes[0].hold = hold
	q.mu.Unlock()
	<-hold
	if err := f.halt(10 * time.Millisecond); !errors.Is(err, errNotFinished) {
		t.Errorf("%v", err)
	}
	if out := b.run("port stop 0"); !strings.Contains(out, "Please remove port 0 from forwarding configuration.") {
		t.Errorf("%s", out)
	}
	close(hold)
	<-f.done
}

func TestAutoStartAndCommandFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "commands")
	os.WriteFile(file, []byte("set burst 16\n"), 0o600)
	b := newBench(t, 1, func(c *Config) { c.Options.AutoStart, c.Options.CmdlineFile = true, file })
	b.fakes[0].promErr = port.ErrNotSupported
	if err := b.Run(context.Background(), strings.NewReader("quit\n")); err != nil {
		t.Fatal(err)
	}
	out := b.out.take()
	at := 0
	for _, part := range []string{
		"Interactive-mode selected\nCLI commands to be read from " + file + "\nAuto-start selected\n",
		"Checking link statuses...\nDone\nError during enabling promiscuous mode for port 0: Operation not supported - ignore\n",
		"Number of packets per burst set to 16\nRead CLI commands from " + file + "\nStart automatic packet forwarding\nio packet forwarding - ",
		"testpmd> quit\nTelling cores to stop...\n",
		"\nDone.\n\nStopping port 0...\n",
	} {
		i := strings.Index(out[at:], part)
		if i < 0 {
			t.Fatalf("%q is missing behind %q in\n%s", part, out[:at], out)
		}
		at += i
	}
}

func TestWithoutPrompt(t *testing.T) {
	b := newBench(t, 1, func(c *Config) { c.Options.Interactive, c.Options.TxFirst = false, 1 })
	if err := b.Run(context.Background(), strings.NewReader("\n")); err != nil {
		t.Fatal(err)
	}
	out := b.out.take()
	if !strings.Contains(out, "Done\nNo commandline core given, start packet forwarding\nio packet forwarding - ") ||
		!strings.Contains(out, "Press enter to exit\nTelling cores to stop...\n") || !strings.HasSuffix(out, farewell) || strings.Contains(out, Prompt) {
		t.Errorf("%s", out)
	}
	if b.fakes[0].queues[0].tx < 32 {
		t.Errorf("sent %d packets first, want at least 32", b.fakes[0].queues[0].tx)
	}
}

func TestWithoutPromptPortsMustStart(t *testing.T) {
	b := newBench(t, 1, func(c *Config) { c.Options.Interactive = false; c.Options.TxOffloads = port.TxSCTPCksum })
	if err := b.Run(context.Background(), strings.NewReader("")); !errors.Is(err, errStart) {
		t.Errorf("%v", err)
	}
	out := b.out.take()
	if !strings.Contains(out, "Fail to configure port 0\nStart ports failed\n") || !strings.HasSuffix(out, "Bye...\n") {
		t.Errorf("%s", out)
	}
}

func TestB26StatisticsArriveEveryPeriod(t *testing.T) {
	b := newBench(t, 1, func(c *Config) { c.Options.Interactive, c.Options.StatsPeriod = false, 20*time.Millisecond })
	cancel, wait := runIn(t, b)
	var out string
	eventually(t, "two rounds of statistics", func() bool {
		out += b.out.take()
		return strings.Count(out, "\x1b[2J\x1b[1;1H\nPort statistics ====================================\n  ######################## NIC statistics for port 0  ####") >= 2
	})
	cancel()
	if err := wait(); err != nil {
		t.Error(err)
	}
	if strings.Contains(out, "Press enter") {
		t.Errorf("%s", out)
	}
}
