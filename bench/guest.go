package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"vionet/bench/peer"
	"vionet/bench/turns"
	"vionet/scripts/lab"
)

// guestSwitch is a group whose switch is in a virtual machine.
type guestSwitch struct {
	*peer.Group // the host
	guest       *lab.Guest
}

// inGuest has the switch in a guest of QEMU's, on a function that is bound to
// vfio-pci: a kick leaves the guest. The wire is in the guest, too, as a file. The
// host sleeps when nothing comes.
func (c switching) inGuest(ctx context.Context, dir string, b buffering) (_ turns.Contestant[peer.Sample], err error) {
	s := peer.Socket(dir, b.name, 0)
	host, err := c.start(ctx, dir, b.name, 0, 0, part{
		End: peer.Vionet, name: "host-" + b.name, core: peerCore, vdevs: []string{backEnd(0, s)}, options: sleeping,
	})
	if err != nil {
		return nil, err
	}
	g := &guestSwitch{Group: host}
	defer func() {
		if err != nil {
			g.Kill()
		}
	}()
	if err := host.Resume(); err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(c.vionet)
	if err != nil {
		return nil, err
	}
	const program, capture = "/bin/vionet", "/flows.pcap"
	wire := switching{capture: capture}.wire()
	g.guest, err = lab.Start(ctx, lab.Config{
		Program: []string{program, "testpmd", "--vdev", wire, "--", "-i", "--total-num-mbufs=4096", "--forward-mode=flowbatch"},
		Files:   map[string]string{program: binary, capture: c.capture},
		NICs:    []lab.NIC{{Net: lab.VhostUser(s, 1)}},
		CPUs:    2, // one forwards, one has the console
		Timeout: time.Hour,
	})
	if err != nil {
		return nil, err
	}
	if _, err := g.guest.Expect(ctx, lab.Prompt); err != nil {
		return nil, err
	}
	for _, line := range []string{b.command, "start"} {
		if _, err := g.guest.Command(ctx, line); err != nil {
			return nil, err
		}
	}
	if err := host.Settle(ctx); err != nil {
		return nil, err
	}
	return g, g.guest.Signal(syscall.SIGSTOP)
}

func (g *guestSwitch) Measure(ctx context.Context, window time.Duration) (peer.Sample, error) {
	if err := g.guest.Signal(syscall.SIGCONT); err != nil {
		return peer.Sample{}, fmt.Errorf("%s: %w", g.Name, err)
	}
	defer g.guest.Signal(syscall.SIGSTOP)
	return g.Group.Measure(ctx, window)
}

func (g *guestSwitch) Kill() {
	if g.guest != nil {
		g.guest.Close()
	}
	g.Group.Kill()
}
