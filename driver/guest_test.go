package driver_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/pci"
	"vionet/port"
	"vionet/scripts/lab"
	"vionet/virtio"
)

// wish is what a line starts with that asks the host for something, for one
// function: "traffic", "announce" or, that it looks at what arrived, "umem".
const wish = "host: "

// guestKinds are the functions of the guest, with QEMU's options that make them
// so.
var guestKinds = []struct {
	name    string
	options []string
}{
	{"split", []string{"rss=on", "hash=on"}},
	{"packed", []string{"packed=on", "rss=on", "hash=on"}},
	{"legacy", []string{"disable-legacy=off", "disable-modern=on", "iommu_platform=off"}},
}

// TestControlInVM drives QEMU's own devices through their control queue, in a
// guest; TestGuest… run there.
// Each device has four queue pairs on a tap, behind which the host sends frames
// when they wish for it.
func TestControlInVM(t *testing.T) {
	lab.Need(t, "qemu")
	ns, err := lab.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	cfg := lab.Config{Namespace: ns, Memory: 768, CPUs: 2}
	var cables []*lab.Cable
	for i, kind := range guestKinds {
		tap := fmt.Sprintf("tap%d", i)
		cable, err := ns.Cable(tap, 4)
		if err != nil {
			t.Fatal(err)
		}
		defer cable.Close()
		cables = append(cables, cable)
		cfg.NICs = append(cfg.NICs, lab.NIC{Net: lab.TapNet(tap, 4), Options: kind.options})
	}
	binary, err := lab.BuildTest(t.Context(), t.TempDir(), "vionet/driver")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Files = map[string]string{"/test": binary}
	cfg.Program = []string{"/test", "-test.v", "-test.run=^TestGuest", "-test.timeout=90s"}
	cfg.Env = []string{"VIONET_GUEST=1"}
	g := lab.Boot(t, cfg)

	for granted := true; granted; {
		granted = grantWish(t, g, cables)
	}
	if status, err := g.Wait(t.Context()); status != 0 || err != nil {
		t.Fatalf("the tests failed in the guest: exit status %d, %v", status, err)
	}
	for line := range strings.Lines(g.Transcript()) {
		if strings.HasPrefix(line, "cell ") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// grantWish waits for a wish of the guest's tests and grants it. It reports
// false at their end.
func grantWish(t *testing.T, g *lab.Guest, cables []*lab.Cable) bool {
	t.Helper()
	if _, err := g.Expect(t.Context(), wish); err != nil {
		return false
	}
	line, err := g.Expect(t.Context(), "\n")
	if err != nil {
		return false
	}
	var what string
	var function int
	if _, err := fmt.Sscan(line, &what, &function); err != nil || function >= len(cables) {
		t.Fatalf("the guest wishes for %q", line)
	}
	switch what {
	case "announce":
		_, err = g.Monitor("announce_self")
	case "traffic":
		err = sendTraffic(cables[function], function)
	case "umem":
		err = seeUMEM(cables[function])
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// Addresses of the traffic: own is the function's, others are nobody's until
// the port receives for them.
var (
	stranger = station(0x77)
	second   = station(0x02)
	renamed  = station(0x01)
	someone  = group(9)
	everyone = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

func ownMAC(function int) net.HardwareAddr {
	return net.HardwareAddr{0x52, 0x54, 0, 0, 0, byte(function + 1)}
}

// flows is the number of UDP flows to the function's own address.
const flows = 32

// traffic are the frames that a function gets: one of each kind, marked by its
// name, and one of each flow.
func traffic(function int) (frames [][]byte) {
	for name, dst := range map[string]net.HardwareAddr{
		"own": ownMAC(function), "stranger": stranger, "second": second, "renamed": renamed, "group": someone, "broadcast": everyone,
	} {
		frames = append(frames, named(dst, nil, name))
	}
	for _, id := range []byte{5, 6} {
		frames = append(frames, named(everyone, []byte{0x81, 0, 0, id}, fmt.Sprintf("vlan %d", id)))
	}
	for i := range flows {
		frames = append(frames, udpFrame(ownMAC(function), uint16(1000+i)))
	}
	return frames
}

const trafficType = 0x88b5 // for local experiments

func named(dst net.HardwareAddr, tag []byte, name string) []byte {
	f := slices.Concat(dst, station(0xee), tag, []byte{trafficType >> 8, trafficType & 0xff}, []byte(name), []byte{0})
	return append(f, make([]byte, 64-len(f))...)
}

func udpFrame(dst net.HardwareAddr, from uint16) []byte {
	ip := []byte{0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	udp := binary.BigEndian.AppendUint16(nil, from)
	udp = append(udp, 0, 9, 0, 26, 0, 0)
	return slices.Concat(dst, station(0xee), []byte{8, 0}, ip, udp, make([]byte, 18))
}

// sendTraffic sends the traffic twice. It is less than a receive queue holds:
// QEMU 7.2 leaves a tap's queue asleep once RSS has sent a frame of it to
// another queue that was empty.
func sendTraffic(c *lab.Cable, function int) error {
	for range 2 {
		for _, f := range traffic(function) {
			if err := c.Send(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// guestPort is a port in the guest, and its pool.
type guestPort struct {
	*driver.Device
	t        *testing.T
	function int
	pool     *mbuf.Pool
	events   chan port.Event
}

// guestPorts runs a test on each function of the guest.
func guestPorts(t *testing.T, f func(t *testing.T, function int, p *guestPort)) {
	if os.Getenv("VIONET_GUEST") != "1" {
		t.Skip("not in a guest: VIONET_GUEST=1 is not set")
	}
	for function, kind := range guestKinds {
		t.Run(kind.name, func(t *testing.T) { f(t, function, openGuestPort(t, function)) })
	}
}

func openGuestPort(t *testing.T, function int) *guestPort {
	transport, err := pci.Open(pci.Tree{}, fmt.Sprintf("0000:00:%02x.0", function+1), pci.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.Open(transport, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	rings, err := d.RingMemory(4)
	if err != nil {
		t.Fatal(err)
	}
	const buffers = 4096
	a := d.Addressing()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: buffers*mbuf.Stride(mbuf.DefaultSize) + rings + 1<<20, NoHuge: a.Mode != mbuf.IOVAPhysical, IOVA: a.Mode, Ranges: a.Ranges})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		mem.Close()
	})
	p := &guestPort{Device: d, t: t, function: function, events: make(chan port.Event, 64)}
	if p.pool, err = mbuf.NewPool(mem, mbuf.PoolConfig{Count: buffers}); err != nil {
		t.Fatal(err)
	}
	d.Notify(func(e port.Event) { p.events <- e })
	return p
}

// restart starts the port with another configuration.
func (p *guestPort) restart(c port.Config) {
	p.t.Helper()
	c.Pool = p.pool
	p.must(p.Stop())
	p.must(p.Configure(c))
	p.must(p.Start())
}

func (p *guestPort) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// cell tells the host what was shown of which device.
func (p *guestPort) cell(what string) {
	if !p.t.Failed() {
		fmt.Printf("cell %s, VFIO, control queue: %s\n", guestKinds[p.function].name, what)
	}
}

// arrival is a flow as it was received.
type arrival struct {
	queue   int
	hash    uint32
	hasHash bool
}

// listen wishes for traffic and receives it: the names of the frames, and how
// the flows arrived.
func (p *guestPort) listen() (names map[string]bool, arrived map[int]arrival) {
	const patience, quiet = 10 * time.Second, 200 * time.Millisecond
	names, arrived = map[string]bool{}, map[int]arrival{}
	bufs := make([]*mbuf.Buf, 32)
	fmt.Printf("%straffic %d\n", wish, p.function)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for q := range p.Info().RxQueues {
			for _, b := range bufs[:p.RxQueue(q).Burst(bufs)] {
				p.note(q, b, names, arrived)
				b.Free()
				end = time.Now().Add(quiet)
			}
		}
	}
	return names, arrived
}

func (p *guestPort) note(queue int, b *mbuf.Buf, names map[string]bool, arrived map[int]arrival) {
	f := b.Bytes()
	at := 12
	if binary.BigEndian.Uint16(f[at:]) == 0x8100 {
		at += 4
	}
	switch binary.BigEndian.Uint16(f[at:]) {
	case trafficType:
		name, _, _ := bytes.Cut(f[at+2:], []byte{0})
		names[string(name)] = true
	case 0x0800:
		flow := int(binary.BigEndian.Uint16(f[34:])) - 1000
		a := arrival{queue, b.Hash, b.Flags&mbuf.RxHash != 0}
		if before, seen := arrived[flow]; seen && before != a {
			p.t.Errorf("flow %d came as %+v and as %+v", flow, before, a)
		}
		arrived[flow] = a
	}
}

// hears fails the test unless the frames of these names come, and no others.
func (p *guestPort) hears(what string, want ...string) {
	p.t.Helper()
	got, _ := p.listen()
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		p.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestGuestFilters has the device filter what it receives.
func TestGuestFilters(t *testing.T) {
	guestPorts(t, func(t *testing.T, function int, p *guestPort) {
		p.restart(port.Config{RxOffloads: port.RxVLANFilt})
		p.hears("at first", "own", "broadcast")
		p.must(p.SetPromiscuous(true))
		p.hears("promiscuous", "own", "broadcast", "stranger", "second", "renamed", "group", "vlan 5", "vlan 6")
		p.must(p.SetPromiscuous(false))
		p.must(p.SetAllMulticast(true))
		p.hears("all multicast", "own", "broadcast", "group")
		p.must(p.SetAllMulticast(false))
		p.must(p.SetMulticast([]net.HardwareAddr{group(1), someone}))
		p.hears("a group", "own", "broadcast", "group")
		p.must(p.AddMAC(second))
		p.hears("a second address", "own", "broadcast", "group", "second")
		p.must(p.SetVLANFilter(5, true))
		p.must(p.SetMAC(renamed))
		p.hears("a VLAN and another address", "broadcast", "group", "second", "renamed", "vlan 5")
		p.must(p.SetRxMode(port.RxNoBroadcast, true))
		p.hears("no broadcast", "group", "second", "renamed")
		p.must(p.Stop())
		p.must(p.RemoveMAC(second))
		p.must(p.Start())
		p.hears("restored", "group", "renamed")
		p.cell("filters")
	})
}

// TestGuestQueuePairs goes from four pairs to one and back.
func TestGuestQueuePairs(t *testing.T) {
	guestPorts(t, func(t *testing.T, function int, p *guestPort) {
		for _, pairs := range []int{4, 1, 4} {
			p.restart(port.Config{RxQueues: pairs, TxQueues: pairs})
			_, arrived := p.listen()
			used := map[int]int{}
			for _, a := range arrived {
				used[a.queue]++
			}
			if len(arrived) != flows || pairs == 1 && used[0] != flows || pairs > 1 && len(used) < 2 {
				t.Errorf("%d pairs: %d flows over the queues %v", pairs, len(arrived), used)
			}
		}
		p.cell("queue pairs 4, 1, 4")
	})
}

// TestGuestRSS spreads flows by a hash, and recomputes each of them.
func TestGuestRSS(t *testing.T) {
	guestPorts(t, func(t *testing.T, function int, p *guestPort) {
		if _, err := p.RSSLimits(); errors.Is(err, port.ErrNotSupported) {
			t.Skip(err)
		}
		p.restart(port.Config{RxQueues: 4, RSS: &port.RSS{}, RxOffloads: port.RxRSSHash})
		p.checkSpread("at first", true)
		p.must(p.SetRSSTable([]uint16{3, 1}))
		p.checkSpread("a table of two", true)
		p.must(p.SetRSSKey(frame(40, 0x5a)))
		p.checkSpread("another key", true)
		p.must(p.SetRSSTypes(virtio.HashIPv4))
		p.checkSpread("addresses only", false)

		// Without RSS the hash is reported all the same.
		p.restart(port.Config{RxOffloads: port.RxRSSHash})
		p.must(p.SetRSSTypes(virtio.HashUDPv4))
		_, arrived := p.listen()
		for flow, a := range arrived {
			if want := p.hashOf(flow, true); !a.hasHash || a.hash != want {
				t.Errorf("flow %d came as %+v, want the hash %#x", flow, a, want)
			}
		}
		p.cell("RSS and its hash")
	})
}

// checkSpread compares each flow's queue and hash with what RSS says.
func (p *guestPort) checkSpread(what string, ports bool) {
	p.t.Helper()
	settings, err := p.RSS()
	p.must(err)
	_, arrived := p.listen()
	if len(arrived) != flows {
		p.t.Errorf("%s: %d flows of %d", what, len(arrived), flows)
	}
	for flow, got := range arrived {
		hash := p.hashOf(flow, ports)
		want := arrival{int(settings.Table[int(hash)%len(settings.Table)]), hash, true}
		if got != want {
			p.t.Errorf("%s: flow %d came as %+v, want %+v", what, flow, got, want)
		}
	}
}

// hashOf is the Toeplitz hash of a flow under the port's key.
func (p *guestPort) hashOf(flow int, ports bool) (hash uint32) {
	settings, err := p.RSS()
	p.must(err)
	input := []byte{10, 0, 0, 1, 10, 0, 0, 2}
	if ports {
		input = binary.BigEndian.AppendUint16(input, uint16(1000+flow))
		input = binary.BigEndian.AppendUint16(input, 9)
	}
	window := binary.BigEndian.Uint32(settings.Key)
	for i, b := range input {
		next := settings.Key[i+4]
		for bit := 7; bit >= 0; bit-- {
			if b>>bit&1 != 0 {
				hash ^= window
			}
			window = window<<1 | uint32(next>>bit&1)
		}
	}
	return hash
}

// TestGuestAnnounce answers the device's wish to be announced.
func TestGuestAnnounce(t *testing.T) {
	guestPorts(t, func(t *testing.T, function int, p *guestPort) {
		p.restart(port.Config{})
		fmt.Printf("%sannounce %d\n", wish, function)
		deadline := time.After(10 * time.Second)
		for {
			select {
			case e := <-p.events:
				if e == port.Announce {
					p.cell("announcement")
					return
				}
			case <-deadline:
				t.Fatal("no wish for an announcement came")
			}
		}
	})
}
