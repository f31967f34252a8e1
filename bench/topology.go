package bench

import "fmt"

// topology is who sends and who counts. The host counts, on its port 0.
type topology struct {
	name      string
	hostMode  string // the host's forwarding mode
	guestMode string // the front ends'
	counter   string // what the host counts
	ports     int    // vhost ports of the host, and ports of the guest
	wire      bool   // the host has a null port besides, which is the wire
	circulate bool   // frames of the host go round and round
}

var (
	pvp         = topology{name: "pvp", hostMode: "io", guestMode: "io", counter: "RX-packets", ports: 1, wire: true}
	guestToHost = topology{name: "guest-to-host", hostMode: "rxonly", guestMode: "txonly", counter: "RX-packets", ports: 1}
	hostToGuest = topology{name: "host-to-guest", hostMode: "txonly", guestMode: "rxonly", counter: "TX-packets", ports: 1}
	loopback    = topology{name: "loopback", hostMode: "io", guestMode: "io", counter: "RX-packets", ports: 1, circulate: true}
	// The guests are two ports of one process: there are as many processors as
	// ends of a wire.
	guestToGuest = topology{name: "guest-to-guest", hostMode: "io", guestMode: "io", counter: "RX-packets", ports: 2, circulate: true}
)

// topologies are the columns of the published tables.
var topologies = []topology{pvp, guestToHost, hostToGuest, loopback}

// circulating is how many frames go round and round.
const circulating = 256

// load is what contestants do: all of it can be said to a console.
type load struct {
	topology
	size, burst int
}

// hostLines and guestLines are what the consoles are told before they start. Wire is the
// host's null port with frames of the right size; it never runs dry, so that a start
// must not wait until it does.
func (l load) hostLines(wire int) []string {
	ports, flush := "0", "on"
	switch {
	case l.wire:
		ports, flush = fmt.Sprintf("0,%d", wire), "off"
	case l.ports == 2:
		ports = "0,1"
	}
	return append(l.lines(l.hostMode), "set portlist "+ports, "set flush_rx "+flush)
}

func (l load) guestLines() []string { return l.lines(l.guestMode) }

func (l load) lines(mode string) []string {
	return []string{"set fwd " + mode, fmt.Sprintf("set txpkts %d", l.size), fmt.Sprintf("set burst %d", l.burst)}
}

// startHost starts a host's forwarding.
func (l load) startHost() string {
	if !l.circulate {
		return "start"
	}
	return fmt.Sprintf("start tx_first %d", max(1, circulating/l.burst))
}
