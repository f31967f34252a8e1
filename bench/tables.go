package bench

import "vionet/bench/peer"

// rival is a host and a guest. A table compares two.
type rival struct {
	name        string // in the table's head
	host, guest peer.End
	mergeable   *bool // nil: as the cell says
}

// table is cells that are measured between the same two contestants; the ratio
// is the second to the first.
type table struct {
	name, title string
	against, of rival
	cells       []cell
}

// tables are all that the benchmark knows.
var tables = []table{
	{"front", "Front ends, on DPDK's vhost",
		rival{name: "DPDK", host: peer.DPDK, guest: peer.DPDK}, rival{name: "vionet", host: peer.DPDK, guest: peer.Vionet}, frontCells},
	{"host", "Hosts, with DPDK's front end",
		rival{name: "DPDK", host: peer.DPDK, guest: peer.DPDK}, rival{name: "vionet", host: peer.Vionet, guest: peer.DPDK}, hostCells()},
	{"zerocopy", "Dequeue zero copy, on vionet's vhost",
		rival{name: "off", host: peer.Vionet, guest: peer.DPDK},
		rival{name: "on", host: peer.End{Vionet: true, Devargs: ",dequeue-zero-copy=2"}, guest: peer.DPDK}, zeroCopyCells},
	{"mergeable", "Mergeable receive buffers, on vionet's vhost",
		rival{name: "off", host: peer.Vionet, guest: peer.DPDK, mergeable: new(false)},
		rival{name: "on", host: peer.Vionet, guest: peer.DPDK, mergeable: new(true)}, mergeableCells},
}

// frontCells are first the four of the plain split ring, then the other kinds,
// two queue pairs and large frames.
var frontCells = []cell{
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

// hostCells are every topology of two processes, over every kind of ring.
func hostCells() (cells []cell) {
	for _, size := range []int{64, 1400} {
		for _, packed := range []bool{false, true} {
			for _, mergeable := range []bool{false, true} {
				for _, t := range []topology{hostToGuest, guestToHost, loopback} {
					cells = append(cells, cell{t, rings{packed: packed, mergeable: mergeable, pairs: 1, size: size}, 1})
				}
			}
		}
	}
	return cells
}

// zeroCopyCells have the rows of the published table, and those that it only
// tells of. What was lost there by forwarding short frames need not be lost.
var zeroCopyCells = []cell{
	{guestToHost, rings{mergeable: true, pairs: 1, size: 64}, 0},
	{guestToHost, rings{mergeable: true, pairs: 1, size: 256}, 0},
	{guestToHost, rings{mergeable: true, pairs: 1, size: 512}, 0},
	{guestToHost, rings{mergeable: true, pairs: 1, size: 1024}, 0},
	{guestToHost, rings{mergeable: true, pairs: 1, size: 1400}, 1.4},
	{vmToVM, rings{mergeable: true, pairs: 1, size: 1400}, 1.7},
	{pvp, rings{mergeable: true, pairs: 1, size: 64}, 0.85},
}

// mergeableCells are the columns of the published table.
var mergeableCells = []cell{
	{pvp, rings{pairs: 1, size: 64}, 0},
	{guestToHost, rings{pairs: 1, size: 64}, 0},
	{hostToGuest, rings{pairs: 1, size: 64}, 0},
	{loopback, rings{pairs: 1, size: 64}, 0},
}
