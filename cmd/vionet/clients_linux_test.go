package main

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"vionet/port"
	"vionet/scripts/lab"
	"vionet/scripts/lab/inet"
	"vionet/virtio"
)

// The network of the cells with Linux's own driver: the host's end of the tap,
// and the guest.
var (
	hostAddr  = netip.MustParsePrefix("192.0.2.1/24")
	guestAddr = netip.MustParsePrefix("192.0.2.2/24")
)

// tapMAC is the address of the tap.
var tapMAC = net.HardwareAddr{2, 0, 0, 0, 0, 7}

// bulk is the size in bytes of a TCP transfer.
const bulk = 4 << 20

// linuxCell is a way to put a guest with Linux's own driver on our back end.
type linuxCell struct {
	name    string
	devargs string   // of net_vhost0, behind the socket
	options []string // of QEMU's virtio-net-pci
	queues  int      // pairs; 0: 1
	mtu     int      // 0: 1500
	agreed  virtio.Features
	without virtio.Features
}

// offloadsOff takes all offloads from QEMU's device.
var offloadsOff = []string{"csum=off", "guest_csum=off", "host_tso4=off", "host_tso6=off", "host_ecn=off", "guest_tso4=off", "guest_tso6=off", "guest_ecn=off"}

var linuxCells = []linuxCell{
	{name: "split", agreed: virtio.NetMrgRxbuf | virtio.EventIdx | virtio.NetCSUM, without: virtio.RingPacked | virtio.NetHostTSO4},
	{name: "packed", options: []string{"packed=on"}, agreed: virtio.RingPacked | virtio.NetMrgRxbuf},
	{name: "split, no mergeable buffers", options: []string{"mrg_rxbuf=off"}, without: virtio.NetMrgRxbuf},
	{name: "packed, no mergeable buffers", options: []string{"packed=on", "mrg_rxbuf=off"}, agreed: virtio.RingPacked, without: virtio.NetMrgRxbuf},
	{name: "split, no event index, no tables", options: []string{"event_idx=off", "indirect_desc=off"}, without: virtio.EventIdx | virtio.IndirectDesc},
	{name: "split, TSO on", devargs: ",tso=1", agreed: virtio.NetHostTSO4 | virtio.NetGuestTSO4},
	{name: "packed, TSO on", devargs: ",tso=1", options: []string{"packed=on"}, agreed: virtio.RingPacked | virtio.NetHostTSO4 | virtio.NetGuestTSO4},
	{name: "split, checksums and TSO off in QEMU", devargs: ",tso=1", options: offloadsOff, without: virtio.NetCSUM | virtio.NetGuestCSUM | virtio.NetHostTSO4 | virtio.NetGuestTSO4},
	{name: "split, MTU 9000", devargs: ",mtu=9000", options: []string{"host_mtu=9000"}, mtu: 9000, agreed: virtio.NetMTU},
	{name: "packed, MTU 9000", devargs: ",mtu=9000", options: []string{"packed=on", "host_mtu=9000"}, mtu: 9000, agreed: virtio.RingPacked | virtio.NetMTU},
	{name: "split, zero copy", devargs: ",dequeue-zero-copy=1", agreed: virtio.NetMrgRxbuf},
	{name: "packed, zero copy", devargs: ",dequeue-zero-copy=1", options: []string{"packed=on"}, agreed: virtio.RingPacked},
	{name: "split, 2 queue pairs", devargs: ",queues=2", queues: 2, agreed: virtio.NetMQ},
	{name: "packed, 2 queue pairs", devargs: ",queues=2", options: []string{"packed=on"}, queues: 2, agreed: virtio.RingPacked | virtio.NetMQ},
}

// TestLinuxGuest has QEMU with Linux's own virtio_net in front of our back end,
// and a tap behind it: the guest is pinged and pings, and moves data over TCP
// both ways, which arrive as they were sent.
func TestLinuxGuest(t *testing.T) {
	lab.Need(t, "qemu", "net", "root")
	for _, c := range linuxCells {
		t.Run(c.name, func(t *testing.T) {
			host := c.startHost(t)
			g := host.boot(t)
			lab.Command(t, host.console.Console, "start")
			c.checkFeatures(t, g)
			said := host.checkTraffic(t, g)
			if c.queues > 1 {
				said += host.checkQueues(t)
			}
			printCell("QEMU, virtio_net of Linux, "+c.name, "%s", said)
		})
	}
}

// linuxHost is a console with a back end and a tap, in a namespace in which the
// test has the other end of the tap.
type linuxHost struct {
	linuxCell
	ns      *lab.Namespace
	console *lab.Process
	socket  string
}

// startHost starts the console. It does not forward yet, which would take the
// processor from a guest that boots.
func (c linuxCell) startHost(t *testing.T) *linuxHost {
	t.Helper()
	c.queues = max(c.queues, 1)
	if c.mtu == 0 {
		c.mtu = 1500
	}
	ns, err := lab.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	h := &linuxHost{linuxCell: c, ns: ns, socket: socketPath(t)}
	// Nice, so that a host that polls leaves the processor to a guest that works.
	h.console = lab.SpawnIn(t, ns, "nice", vionet(t), "testpmd", "--no-pci", "--no-huge",
		"--vdev", "net_vhost0,iface="+h.socket+c.devargs, "--vdev", fmt.Sprintf("net_tap0,iface=tap0,mac=%v", tapMAC), "--", "-i", "--mask-event=intr_lsc",
		fmt.Sprintf("--rxq=%d", c.queues), fmt.Sprintf("--txq=%d", c.queues))
	if _, err := h.console.Expect(t.Context(), lab.Prompt); err != nil {
		t.Fatal(err)
	}
	for id := range 2 {
		lab.Command(t, h.console.Console, fmt.Sprintf("port config mtu %d %d", id, c.mtu))
	}
	h.inside(t, func() error { return inet.Configure("tap0", hostAddr) })
	return h
}

// inside runs f in the host's namespace.
func (h *linuxHost) inside(t *testing.T, f func() error) {
	t.Helper()
	if err := h.ns.Do(f); err != nil {
		t.Fatal(err)
	}
}

// boot boots the guest.
func (h *linuxHost) boot(t *testing.T, arguments ...string) *lab.Guest {
	t.Helper()
	// Without vectors, since QEMU 7.2 crashes over them; see lab.NIC.
	return lab.Station(t, guestAddr.String(), lab.Config{
		NICs:      []lab.NIC{{Net: lab.VhostUser(h.socket, h.queues), MAC: "52:54:00:58:d7:01", Options: append([]string{"vectors=0"}, h.options...)}},
		CPUs:      h.queues,
		Arguments: arguments,
	})
}

// ask is lab.Guest.Ask for a test.
func ask(t *testing.T, g *lab.Guest, format string, args ...any) string {
	t.Helper()
	answer, err := g.Ask(t.Context(), format, args...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// checkFeatures wants the guest's driver to have agreed on the features of the
// cell, and on its MTU.
func (c linuxCell) checkFeatures(t *testing.T, g *lab.Guest) {
	t.Helper()
	bits, err := strconv.ParseUint(ask(t, g, "features"), 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	if f := virtio.Features(bits); !f.Has(c.agreed) || f&c.without != 0 {
		t.Errorf("agreed on %v, want %v and not %v", f, c.agreed, c.without)
	}
	if c.agreed.Has(virtio.NetMTU) {
		if got := ask(t, g, "mtu"); got != strconv.Itoa(c.mtu) {
			t.Errorf("the guest's MTU is %s, want %d", got, c.mtu)
		}
	}
}

const pings = 5

// checkTraffic pings both ways, with packets as small and as large as can be,
// looks at what ARP found, and moves data over TCP both ways. It gives what it
// did, in short.
func (h *linuxHost) checkTraffic(t *testing.T, g *lab.Guest) string {
	t.Helper()
	for _, size := range []int{0, h.mtu - 28} {
		h.inside(t, func() error {
			n, err := inet.Ping(guestAddr.Addr(), size, pings)
			if n != pings && err == nil {
				err = fmt.Errorf("%d of %d pings of %d bytes to the guest were answered", n, pings, size)
			}
			return err
		})
		if got := ask(t, g, "ping %v %d %d", hostAddr.Addr(), size, pings); got != strconv.Itoa(pings) {
			t.Errorf("%s of %d pings of %d bytes from the guest were answered", got, pings, size)
		}
	}
	h.checkNeighbours(t, g)
	h.inside(t, func() error { return inet.Push(guestAddr.Addr(), bulk) })
	h.inside(t, func() error { return inet.Pull(guestAddr.Addr(), bulk) })
	return fmt.Sprintf("%d pings up to %d bytes, ARP, TCP %d MiB both ways", 4*pings, h.mtu, bulk>>20)
}

// checkNeighbours wants each end to have the other's MAC address from ARP.
func (h *linuxHost) checkNeighbours(t *testing.T, g *lab.Guest) {
	t.Helper()
	h.inside(t, func() error {
		mac, err := inet.Neighbour(guestAddr.Addr())
		if err == nil && !bytes.Equal(mac, guestMAC) {
			err = fmt.Errorf("the guest's address is %v, want %v", mac, net.HardwareAddr(guestMAC))
		}
		return err
	})
	if mac := ask(t, g, "neighbour %v", hostAddr.Addr()); mac != tapMAC.String() {
		t.Errorf("the host's address is %s to the guest, want %v", mac, tapMAC)
	}
}

// checkQueues opens connections until both queues were used both ways: they are
// spread by hash.
func (h *linuxHost) checkQueues(t *testing.T) string {
	t.Helper()
	const connections = 32
	for n := range connections {
		answer := lab.Command(t, h.console.Console, "show port xstats 0")
		if idle := idleQueues(answer, h.queues); len(idle) == 0 {
			return fmt.Sprintf(", all queues used after %d more", 2*n)
		} else if n == connections-1 {
			t.Errorf("%v were not used:\n%s", idle, answer)
		}
		for _, move := range []func(netip.Addr, int64) error{inet.Push, inet.Pull} {
			h.inside(t, func() error { return move(guestAddr.Addr(), 1<<16) })
		}
	}
	return ""
}

// idleQueues lists the counters of queues in extended statistics that are 0.
func idleQueues(xstats string, queues int) (idle []string) {
	for i := range queues {
		for _, way := range []string{"rx", "tx"} {
			if name := fmt.Sprintf("%s_q%d_good_packets: ", way, i); !strings.Contains(xstats, name) || strings.Contains(xstats, name+"0\n") {
				idle = append(idle, name)
			}
		}
	}
	return idle
}

// TestLinuxGuestToGuest has two guests on two back ends of one console, which
// forwards between them. Segmentation is theirs: what one sends uncut arrives
// uncut at the other.
func TestLinuxGuestToGuest(t *testing.T) {
	lab.Need(t, "qemu", "net", "root")
	addrs := []netip.Prefix{hostAddr, guestAddr}
	sockets := []string{socketPath(t), socketPath(t)}
	host := lab.Spawn(t, "nice", vionet(t), "testpmd", "--no-pci", "--no-huge",
		"--vdev", "net_vhost0,tso=1,iface="+sockets[0], "--vdev", "net_vhost1,tso=1,iface="+sockets[1], "--", "-i", "--mask-event=intr_lsc",
		fmt.Sprintf("--tx-offloads=%#x", uint64(port.TxTCPCksum|port.TxUDPCksum|port.TxTCPTSO|port.TxMultiSegs)))
	if _, err := host.Expect(t.Context(), lab.Prompt); err != nil {
		t.Fatal(err)
	}
	var guests []*lab.Guest
	for i, kind := range []string{"packed=off", "packed=on"} {
		guests = append(guests, lab.Station(t, addrs[i].String(), lab.Config{
			NICs: []lab.NIC{{Net: lab.VhostUser(sockets[i], 1), MAC: fmt.Sprintf("52:54:00:00:01:%02x", i), Options: []string{"vectors=0", kind}}},
		}))
	}
	lab.Command(t, host.Console, "start")
	if got := ask(t, guests[0], "ping %v %d %d", addrs[1].Addr(), 1472, pings); got != strconv.Itoa(pings) {
		t.Errorf("%s of %d pings were answered", got, pings)
	}
	ask(t, guests[0], "push %v %d", addrs[1].Addr(), bulk)
	ask(t, guests[0], "pull %v %d", addrs[1].Addr(), bulk)
	for id := range guests {
		packets, size := receivedFrames(t, lab.Command(t, host.Console, fmt.Sprintf("show port stats %d", id)))
		if size <= 1514*packets {
			t.Errorf("guest %d sent %d bytes in %d frames: they are cut", id, size, packets)
		}
	}
	printCell("QEMU, virtio_net of Linux, split to packed, TSO on", "%d pings, TCP %d MiB both ways, uncut", pings, bulk>>20)
}

var received = regexp.MustCompile(`RX-packets: (\d+) .*RX-bytes: +(\d+)`)

// receivedFrames reads the packets and bytes received in a port's statistics.
func receivedFrames(t *testing.T, stats string) (packets, size int) {
	t.Helper()
	m := received.FindStringSubmatch(stats)
	if m == nil {
		t.Fatalf("no packets in\n%s", stats)
	}
	packets, _ = strconv.Atoi(m[1])
	size, _ = strconv.Atoi(m[2])
	return packets, size
}
