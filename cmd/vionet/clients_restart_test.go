package main

import (
	"syscall"
	"testing"

	"vionet/scripts/lab"
)

// TestLinuxGuestRestarts has a guest reboot, and then its QEMU killed and
// started again, while the back end forwards: each time the rings start anew,
// and traffic goes on.
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

			if err := g.Send("reboot"); err != nil {
				t.Fatal(err)
			}
			if err := g.StationIsUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			printCell("QEMU, virtio_net of Linux, "+c.name+", after a reboot", "%s", host.checkTraffic(t, g))

			if err := g.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			g.Close()
			printCell("QEMU, virtio_net of Linux, "+c.name+", after a new QEMU", "%s", host.checkTraffic(t, host.boot(t)))
		})
	}
}
