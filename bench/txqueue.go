package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"vionet/bench/frames"
	"vionet/bench/peer"
	"vionet/bench/turns"
)

// bufferings are the two that the benchmark compares: every batch of a flow sent
// as it is, and gathered by a transmit buffer.
var bufferings = [2]buffering{{"off", "set txbuffer off"}, {"on", "set txbuffer 32"}}

// buffering is a setting of the switch's transmit buffer.
type buffering struct{ name, command string }

// flowCounts are the rows of the published table.
var flowCounts = []int{10, 32, 50, 100, 500, 1000}

// switched is a topology in the middle of which a vionet in mode flowbatch sends
// each flow of a burst in a batch of its own.
type switched struct {
	name   string
	start  func(c switching, ctx context.Context, dir string, b buffering) (turns.Contestant[peer.Sample], error)
	floors map[int]float64 // ratios to reach, by flows
	// published are the packets a second without and with the queue, by flows.
	published map[int][2]float64
}

var (
	p2pPublished = map[int][2]float64{
		10: {10727283, 13393844}, 32: {7042253, 11228799}, 50: {7515491, 9607791},
		100: {5838699, 9430730}, 500: {5285066, 7845807}, 1000: {5226477, 7135601},
	}
	pvPublished = map[int][2]float64{
		10: {5945899, 7833914}, 32: {3872211, 6530133}, 50: {3283713, 6618711},
		100: {3132540, 5857226}, 500: {2964499, 5273006}, 1000: {2931952, 5178038},
	}
	p2pFloors = map[int]float64{10: 1.25, 100: 1.6, 1000: 1.35}
	pvFloors  = map[int]float64{10: 1.3, 50: 2, 1000: 1.75}
)

// switchedTopologies have a peer that polls, which spares the switch the kicks, or
// one that sleeps and wants to be kicked.
var switchedTopologies = []switched{
	{"P2P", switching.wireToWire, p2pFloors, p2pPublished},
	{"PV", switching.wireToGuest, pvFloors, pvPublished},
	{"P2P, sleeping host", switching.wireToSleepingHost, p2pFloors, p2pPublished},
	{"PV, sleeping guest", switching.wireToSleepingGuest, pvFloors, pvPublished},
	{"P2P, switch in a guest, sleeping host", switching.inGuest, p2pFloors, p2pPublished},
}

// TxQueue prints the tables of the transmit buffer: forwarding with and without.
func (s Settings) TxQueue(ctx context.Context) error {
	restore, err := s.begin()
	if err != nil {
		return err
	}
	defer restore()
	s.printf("\n### Transmit buffer, 64 B\n\n")
	s.println("| topology | flows | off Mpps | on Mpps | ratio q1 | ratio median | ratio q3 | to reach | published |")
	s.println("|---|---|---|---|---|---|---|---|---|")
	for _, t := range switchedTopologies {
		for _, flows := range flowCounts {
			if !s.matches(fmt.Sprintf("%s: %d flows", t.name, flows)) {
				continue
			}
			if err := s.printSwitched(ctx, t, flows); err != nil {
				return fmt.Errorf("%s, %d flows: %w", t.name, flows, err)
			}
		}
	}
	return s.latencies(ctx)
}

func (s Settings) printSwitched(ctx context.Context, t switched, flows int) error {
	var starters []turns.Starter[peer.Sample]
	for _, b := range bufferings {
		starters = append(starters, func(ctx context.Context, dir string) (turns.Contestant[peer.Sample], error) {
			c := switching{vionet: s.Vionet, capture: filepath.Join(dir, "flows.pcap")}
			if err := frames.WriteFlows(c.capture, flows, 64); err != nil {
				return nil, err
			}
			return t.start(c, ctx, dir, b)
		})
	}
	r, err := turns.Compete(ctx, s.plan(), starters...)
	if err != nil {
		return err
	}
	published := t.published[flows]
	s.printf("| %s | %d | %s | %s | %.2f |\n", t.name, flows, compared(r.Samples[0], r.Samples[1]), bar(t.floors[flows]), published[1]/published[0])
	return nil
}

// switching starts switches and what is around them.
type switching struct {
	vionet  string // the binary
	capture string // a file with the frames
}

// The cores of a switch and of what is around it.
const (
	peerCore   = 0
	switchCore = 1
)

// part is a process of a topology.
type part struct {
	peer.End
	name     string // unlike any other's
	core     int
	machine  []string // options of the machine, besides those of every part
	vdevs    []string
	options  []string // of testpmd, besides those of every part
	commands []string // at its prompt, before it starts to forward
}

// start starts the parts one after the other, so that a socket is there before
// somebody connects. The counter is that of the counting part.
func (c switching) start(ctx context.Context, dir, name string, counting, countingPort int, parts ...part) (_ *peer.Group, err error) {
	p := &peer.Group{Name: name}
	defer func() {
		if err != nil {
			p.Kill()
		}
	}()
	for i, part := range parts {
		argv := append(part.Command(c.vionet, part.name, part.core), part.machine...)
		for _, vdev := range part.vdevs {
			argv = append(argv, "--vdev", vdev)
		}
		argv = append(append(argv, "--", "-i", "--total-num-mbufs=16384"), part.options...)
		proc, err := p.Start(ctx, filepath.Join(dir, part.name+".log"), part.core, argv)
		if err != nil {
			return nil, err
		}
		if err := proc.Ready(); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		if err := proc.Send(strings.Join(append(part.commands, "start"), "\n")); err != nil {
			return nil, err
		}
		if i == counting {
			p.Count = proc.Counter(countingPort, "RX-packets")
		}
	}
	return p, p.Settle(ctx)
}

// frontEnd and backEnd are the two ends of a socket, as testpmd's arguments.
func frontEnd(i int, socket string) string {
	return fmt.Sprintf("net_virtio_user%d,path=%s,queue_size=256,mrg_rxbuf=0", i, socket)
}

func backEnd(i int, socket string) string { return fmt.Sprintf("net_vhost%d,iface=%s", i, socket) }

// wire is a port that plays the frames for ever.
func (c switching) wire() string {
	return fmt.Sprintf("net_pcap0,rx_pcap=%s,infinite_rx=1", c.capture)
}

// forwarder is the switch itself.
func forwarder(b buffering, vdevs ...string) part {
	return part{
		End: peer.Vionet, name: "switch-" + b.name, core: switchCore, vdevs: vdevs,
		options: []string{"--forward-mode=flowbatch"}, commands: []string{b.command},
	}
}

// wireToWire is the published P2P: the switch has two front ends, behind which
// DPDK plays both wires. Its ports are taken in pairs: the frames go into the
// first back end, and what comes out of the second to nowhere.
func (c switching) wireToWire(ctx context.Context, dir string, b buffering) (turns.Contestant[peer.Sample], error) {
	in, out := peer.Socket(dir, b.name, 0), peer.Socket(dir, b.name, 1)
	wires := part{
		End: peer.DPDK, name: "wires-" + b.name, core: peerCore,
		vdevs:   []string{c.wire(), backEnd(0, in), backEnd(1, out), "net_null0,no-rx=1"},
		options: []string{"--no-lsc-interrupt", "--forward-mode=io"},
	}
	return c.start(ctx, dir, b.name, 0, 2, wires, forwarder(b, frontEnd(0, in), frontEnd(1, out)))
}

// wireToGuest is the published PV: the switch has the wire and a back end.
func (c switching) wireToGuest(ctx context.Context, dir string, b buffering) (turns.Contestant[peer.Sample], error) {
	s := peer.Socket(dir, b.name, 0)
	guest := part{End: peer.DPDK, name: "guest-" + b.name, core: peerCore, vdevs: []string{frontEnd(0, s)}, options: []string{"--forward-mode=rxonly"}}
	return c.start(ctx, dir, b.name, 1, 0, forwarder(b, c.wire(), backEnd(0, s)), guest)
}

// sleeping is what a vionet is told that sleeps when nothing comes.
var sleeping = []string{"--forward-mode=rxonly", "--poll-mode=interrupt"}

// wireToSleepingHost has the wire in the switch: the host has nothing else to do
// than to receive, and sleeps in between.
func (c switching) wireToSleepingHost(ctx context.Context, dir string, b buffering) (turns.Contestant[peer.Sample], error) {
	s := peer.Socket(dir, b.name, 0)
	host := part{End: peer.Vionet, name: "host-" + b.name, core: peerCore, vdevs: []string{backEnd(0, s)}, options: sleeping}
	return c.start(ctx, dir, b.name, 0, 0, host, forwarder(b, c.wire(), frontEnd(0, s)))
}

func (c switching) wireToSleepingGuest(ctx context.Context, dir string, b buffering) (turns.Contestant[peer.Sample], error) {
	s := peer.Socket(dir, b.name, 0)
	guest := part{End: peer.Vionet, name: "guest-" + b.name, core: peerCore, vdevs: []string{frontEnd(0, s)}, options: sleeping}
	return c.start(ctx, dir, b.name, 1, 0, forwarder(b, c.wire(), backEnd(0, s)), guest)
}
