package main

import (
	"fmt"
	"strings"
)

// topology is who sends and who counts.
type topology struct {
	name      string
	hostMode  string // the host's forwarding mode
	guestMode string // the front ends'
	counter   string // what the host counts
}

var (
	guestToHost = topology{"guest to host", "rxonly", "txonly", "RX-packets"}
	hostToGuest = topology{"host to guest", "txonly", "rxonly", "TX-packets"}
)

// rings are the virtqueues that both contestants ask for, and what goes through
// them.
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

// devargs are the arguments of the front ends' virtual device.
func (r rings) devargs() string {
	bit := map[bool]int{true: 1}
	return fmt.Sprintf("queues=%d,queue_size=256,mrg_rxbuf=%d,packed_vq=%d,in_order=%d",
		r.pairs, bit[r.mergeable], bit[r.packed], bit[r.inOrder])
}

// cell is one line of the table.
type cell struct {
	topology
	rings
	floor float64 // the ratio to reach
}

func (c cell) String() string { return c.topology.name + ": " + c.rings.String() }

// cells are the table: first the four of the plain split ring, then the other
// kinds, two queue pairs and large frames.
var cells = []cell{
	{guestToHost, rings{pairs: 1, size: 64}, 1.5},
	{guestToHost, rings{mergeable: true, pairs: 1, size: 64}, 1.5},
	{hostToGuest, rings{pairs: 1, size: 64}, 1.1},
	{hostToGuest, rings{mergeable: true, pairs: 1, size: 64}, 1.1},

	{guestToHost, rings{inOrder: true, mergeable: true, pairs: 1, size: 64}, 1},
	{hostToGuest, rings{inOrder: true, mergeable: true, pairs: 1, size: 64}, 1},
	{guestToHost, rings{packed: true, mergeable: true, pairs: 1, size: 64}, 1},
	{hostToGuest, rings{packed: true, mergeable: true, pairs: 1, size: 64}, 1},
	{guestToHost, rings{packed: true, inOrder: true, mergeable: true, pairs: 1, size: 64}, 1},
	{hostToGuest, rings{packed: true, inOrder: true, mergeable: true, pairs: 1, size: 64}, 1},
	{guestToHost, rings{mergeable: true, pairs: 2, size: 64}, 1},
	{hostToGuest, rings{mergeable: true, pairs: 2, size: 64}, 1},
	{guestToHost, rings{mergeable: true, pairs: 1, size: 1400}, 1},
	{hostToGuest, rings{mergeable: true, pairs: 1, size: 1400}, 1},
}
