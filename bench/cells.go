package bench

import (
	"fmt"
	"strings"
)

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
	guestToHost = topology{name: "guest to host", hostMode: "rxonly", guestMode: "txonly", counter: "RX-packets", ports: 1}
	hostToGuest = topology{name: "host to guest", hostMode: "txonly", guestMode: "rxonly", counter: "TX-packets", ports: 1}
	loopback    = topology{name: "loopback", hostMode: "io", guestMode: "io", counter: "RX-packets", ports: 1, circulate: true}
	pvp         = topology{name: "wire to guest to wire", hostMode: "io", guestMode: "io", counter: "RX-packets", ports: 1, wire: true}
	// The guests are two ports of one process: there are as many processors as
	// ends of a wire.
	vmToVM = topology{name: "guest to guest", hostMode: "io", guestMode: "io", counter: "RX-packets", ports: 2, circulate: true}
)

// rings are the virtqueues that a guest asks for, and what goes through them.
type rings struct {
	packed, inOrder, mergeable bool
	pairs                      int
	size                       int // bytes of a frame
}

func (r rings) String() string {
	kind := "split"
	if r.packed {
		kind = "packed"
	}
	words := []string{kind}
	if r.inOrder {
		words = append(words, "in order")
	}
	if r.mergeable {
		words = append(words, "mergeable")
	}
	if r.pairs > 1 {
		words = append(words, fmt.Sprintf("%d pairs", r.pairs))
	}
	return strings.Join(append(words, fmt.Sprintf("%d B", r.size)), ", ")
}

// devargs are the arguments of the front ends' virtual devices.
func (r rings) devargs() string {
	bit := map[bool]int{true: 1}
	return fmt.Sprintf("queues=%d,queue_size=256,mrg_rxbuf=%d,packed_vq=%d,in_order=%d",
		r.pairs, bit[r.mergeable], bit[r.packed], bit[r.inOrder])
}

// cell is one line of a table.
type cell struct {
	topology
	rings
	floor float64 // the ratio to reach; 0: none
}

func (c cell) String() string { return c.topology.name + ": " + c.rings.String() }
