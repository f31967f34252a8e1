package main

import (
	"syscall"
	"testing"

	"vionet/scripts/lab"
	"vionet/scripts/lab/inet"
)

// TestLinuxGuestRestarts has a guest reboot, restart at once in the middle of a
// transfer, and then its QEMU killed and started again in the middle of another:
// the rings start anew, and traffic goes on.
//
// It does not reboot in the middle of a transfer: Linux may spin for ever then. It
// marks the queues as broken, and goes on looking for the rest of the frames that
// were sent ("virtio_ring: fix infinite loop in virtnet_poll_cleantx when device
// is broken", Linux 0d0eff39ceb3; Debian's 6.1 has the fault).
func TestLinuxGuestRestarts(t *testing.T) {
	lab.Need(t, "qemu", "net", "root")
	for _, c := range []linuxCell{
		{name: "split"},
		{name: "packed, 2 queue pairs", devargs: ",queues=2", options: []string{"packed=on"}, queues: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := c.startHost(t)
			g := host.boot(t, "-action", "reboot=reset")
			lab.Command(t, host.console.Console, "start")
			host.checkTraffic(t, g)

			again := func(command string) {
				if err := g.Send(command); err != nil {
					t.Fatal(err)
				}
				if err := g.StationIsUp(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			again("reboot")
			printCell("QEMU, virtio_net of Linux, "+c.name+", after a reboot", "%s", host.checkTraffic(t, g))

			ended := host.interrupted(t)
			again("restart")
			<-ended
			printCell("QEMU, virtio_net of Linux, "+c.name+", after a restart in a transfer", "%s", host.checkTraffic(t, g))

			ended = host.interrupted(t)
			if err := g.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			g.Close()
			g = host.boot(t)
			<-ended
			printCell("QEMU, virtio_net of Linux, "+c.name+", after a new QEMU", "%s", host.checkTraffic(t, g))
		})
	}
}

// interrupted starts a transfer from the guest that is longer than the guest
// will live, and returns when it is under way. The channel is closed at its end.
func (h *linuxHost) interrupted(t *testing.T) <-chan struct{} {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := h.ns.Do(func() error { return inet.Pull(guestAddr.Addr(), 1<<40) }); err == nil {
			t.Error("a transfer outlived the guest")
		}
	}()
	before := h.received(t)
	eventually(t, "a transfer under way", func() bool { return h.received(t) > before+100 })
	return ended
}

// received is the number of frames that the host got from the guest.
func (h *linuxHost) received(t *testing.T) int {
	t.Helper()
	packets, _ := receivedFrames(t, lab.Command(t, h.console.Console, "show port stats 0"))
	return packets
}
