package main

import (
	"fmt"
	"testing"

	"vionet/scripts/lab"
)

// TestGuestOnBackEnd has our driver in a guest, behind vfio-pci, and our back
// end behind QEMU's device: what the guest gets it returns.
func TestGuestOnBackEnd(t *testing.T) {
	lab.Need(t, "qemu", "root")
	for _, c := range []struct {
		name    string
		options []string
		pairs   int
		largest int // frame in bytes
	}{
		{"split", nil, 1, 9014},
		{"split, no mergeable buffers", []string{"mrg_rxbuf=off"}, 1, 1514},
		{"packed, 2 queue pairs", []string{"packed=on"}, 2, 9014},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := newBackEnd(t, c.pairs)
			queues := []string{fmt.Sprintf("--rxq=%d", c.pairs), fmt.Sprintf("--txq=%d", c.pairs)}
			g := lab.Boot(t, lab.Config{
				Program: append([]string{"/bin/vionet", "testpmd", "--", "-i", "--mask-event=intr_lsc", "--total-num-mbufs=4096"}, queues...),
				Files:   map[string]string{"/bin/vionet": vionet(t)},
				NICs:    []lab.NIC{{Net: lab.VhostUser(host.socket, c.pairs), Options: c.options}},
			})
			if _, err := g.Expect(t.Context(), lab.Prompt); err != nil {
				t.Fatal(err)
			}
			lab.Command(t, g.Console, "start")
			total := host.checkEcho(c.pairs, c.largest)
			lab.Command(t, g.Console, "stop")
			checkClientCounts(t, g.Process, total)
			quit(t, g.Process)
			printCell("QEMU, vionet over vfio-pci, "+c.name, "%d there and back", total)
		})
	}
}
