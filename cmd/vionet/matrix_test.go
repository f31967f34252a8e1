package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vionet/scripts/lab"
)

// matrixCell is a kind of device, a way to it and what must come of the two.
type matrixCell struct {
	name    string
	driver  string   // vfio-pci unless given
	noIOMMU bool     // no virtual IOMMU in the machine
	options []string // of QEMU's virtio-net-pci
	queues  int      // pairs; 0: 1
	devargs string   // behind -a BDF
	poll    string   // mode; "": busy
	rx, tx  string   // paths
}

var legacy = []string{"disable-modern=on", "disable-legacy=off", "iommu_platform=off"}

var transitional = []string{"disable-modern=off", "disable-legacy=off", "iommu_platform=off"}

var matrix = []matrixCell{
	{name: "modern, vfio", rx: "mergeable buffer", tx: "simple"},
	{name: "modern, vfio, no mergeable buffers", options: []string{"mrg_rxbuf=off"}, rx: "simple", tx: "simple"},
	{name: "modern, vfio, around the IOMMU", options: []string{"iommu_platform=off"}, rx: "mergeable buffer", tx: "simple"},
	{name: "modern, vfio, packed", options: []string{"packed=on"}, rx: "packed ring mergeable buffer", tx: "packed ring standard"},
	{name: "modern, vfio, packed, event index", options: []string{"packed=on"}, devargs: ",event_idx=1", rx: "packed ring mergeable buffer", tx: "packed ring standard"},
	{name: "modern, vfio, event index", devargs: ",event_idx=1", rx: "mergeable buffer", tx: "simple"},
	{name: "modern, vfio, event index, adaptive", devargs: ",event_idx=1", poll: "adaptive", rx: "mergeable buffer", tx: "simple"},
	{name: "modern, vfio, event index not offered", options: []string{"event_idx=off"}, devargs: ",event_idx=1", rx: "mergeable buffer", tx: "simple"},
	{name: "modern, vfio, 4 pairs, hash, rss", queues: 4, options: []string{"hash=on", "rss=on"}, rx: "mergeable buffer", tx: "simple"},
	{name: "transitional, vfio", options: transitional, rx: "mergeable buffer", tx: "simple"},
	{name: "legacy, vfio", options: legacy, rx: "mergeable buffer", tx: "simple"},
	{name: "modern, uio", driver: "uio_pci_generic", noIOMMU: true, rx: "mergeable buffer", tx: "simple"},
	{name: "transitional, uio", driver: "uio_pci_generic", noIOMMU: true, options: transitional, rx: "mergeable buffer", tx: "simple"},
	{name: "legacy, uio", driver: "uio_pci_generic", noIOMMU: true, options: legacy, rx: "mergeable buffer", tx: "simple"},
}

// TestGuestMatrix moves frames both ways through the console in a guest, over
// every transport and kind of ring, and prints a line for each.
func TestGuestMatrix(t *testing.T) {
	lab.Need(t, "qemu", "net", "root")
	for _, c := range matrix {
		t.Run(c.name, func(t *testing.T) {
			g, cable := c.boot(t)
			if _, err := g.Expect(t.Context(), lab.Prompt); err != nil {
				t.Fatal(err)
			}
			paths := lab.Command(t, g.Console, "show port 0 path")
			for _, want := range []string{"Rx path of port 0 : " + c.rx + "\n", "Tx path of port 0 : " + c.tx + "\n"} {
				if !strings.Contains(paths, want) {
					t.Errorf("want %q in\n%s", want, paths)
				}
			}
			sent := checkGeneratedFrames(t, g, cable)
			returned := checkReturnedFrames(t, g, cable)
			if strings.Contains(g.Transcript(), "polls all the time") {
				t.Errorf("in poll mode %s\n%s", c.poll, g.Transcript())
			}
			quit(t, g.Process)
			fmt.Fprintf(os.Stdout, "cell: %-38s Rx %-28s Tx %-20s %d sent, %d returned\n", c.name, c.rx, c.tx, sent, returned)
		})
	}
}

// boot boots a guest with the cell's device on a cable, and the console on it.
func (c matrixCell) boot(t *testing.T) (*lab.Guest, *lab.Cable) {
	t.Helper()
	queues := max(c.queues, 1)
	cable, ns := newCable(t, queues)
	console := []string{"/bin/vionet", "testpmd", "-a", "0000:00:01.0" + c.devargs, "--", "-i", "--total-num-mbufs=8192",
		fmt.Sprintf("--rxq=%d", queues), fmt.Sprintf("--txq=%d", queues), "--poll-mode=" + cmp.Or(c.poll, "busy")}
	return lab.Boot(t, lab.Config{
		Program:   console,
		Files:     map[string]string{"/bin/vionet": vionet(t)},
		NICs:      []lab.NIC{{Net: cable.Net, MAC: "52:54:00:58:d7:01", Options: c.options}},
		Driver:    c.driver,
		NoIOMMU:   c.noIOMMU,
		Namespace: ns,
	}), cable
}

// newCable lays a tap cable in a network namespace of its own.
func newCable(t *testing.T, queues int) (*lab.Cable, *lab.Namespace) {
	t.Helper()
	ns, err := lab.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	cable, err := ns.Cable("tap0", queues)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cable.Close)
	return cable, ns
}

// checkReturnedFrames sends frames into the guest, which sends them on to its
// peer, and wants each back, whichever queue it took. (As they came, the bridge
// would not let them leave where they came from.)
func checkReturnedFrames(t *testing.T, g *lab.Guest, cable *lab.Cable) int {
	t.Helper()
	lab.Command(t, g.Console, "set fwd mac")
	lab.Command(t, g.Console, "start")
	seen := len(cable.Frames())
	want := map[string]bool{}
	for i := range 40 {
		f := tcpSegment(30*i + 1)
		f[35] = byte(i) // ports that spread over queues
		if err := cable.Send(f); err != nil {
			t.Fatal(err)
		}
		copy(f, []byte{2, 0, 0, 0, 0, 0})
		copy(f[6:], guestMAC)
		want[string(f)] = true
	}
	frames, err := cable.WaitFrames(t.Context(), seen+len(want))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames[seen:] {
		delete(want, string(f))
	}
	if len(want) > 0 {
		t.Errorf("%d frames did not come back", len(want))
	}
	lab.Command(t, g.Console, "stop")
	return 40 - len(want)
}

var sentPackets = regexp.MustCompile(`TX-packets: (\d+) `)

// TestVhostUserInTheGuest has DPDK's vhost behind QEMU's device: every frame
// that the guest counts is counted at the host.
func TestVhostUserInTheGuest(t *testing.T) {
	lab.Need(t, "qemu", "dpdk", "root")
	for kind, packed := range map[string]string{"split": "off", "packed": "on"} {
		t.Run(kind, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "vhost.sock")
			host := lab.Testpmd(t, lab.DPDK{Vdevs: []string{"net_vhost0,iface=" + socket}, Arguments: []string{"--forward-mode=rxonly", "--disable-link-check"}})
			lab.Command(t, host.Console, "start")
			g := lab.Boot(t, lab.Config{
				Program: []string{"/bin/vionet", "testpmd", "--", "-i", "--forward-mode=txonly", "--total-num-mbufs=4096"},
				Files:   map[string]string{"/bin/vionet": vionet(t)},
				NICs:    []lab.NIC{{Net: lab.VhostUser(socket, 1), Options: []string{"packed=" + packed}}},
			})
			if _, err := g.Expect(t.Context(), lab.Prompt); err != nil {
				t.Fatal(err)
			}
			lab.Command(t, g.Console, "start")
			lab.Command(t, g.Console, "show port stats 0")
			m := sentPackets.FindStringSubmatch(lab.Command(t, g.Console, "stop"))
			if m == nil || m[1] == "0" {
				t.Fatal("the guest sent nothing")
			}
			quit(t, g.Process) // the rest of the ring is drained before the reset
			stats := lab.Command(t, host.Console, "show port stats 0")
			if !strings.Contains(stats, "RX-packets: "+m[1]+" ") {
				t.Errorf("the guest sent %s packets, the host says\n%s", m[1], stats)
			}
			fmt.Fprintf(os.Stdout, "cell: %-38s %s sent, all counted by the host\n", "modern, vfio, vhost-user, "+kind, m[1])
		})
	}
}
