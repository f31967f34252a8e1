package driveronly

import (
	"fmt"
	"strings"

	"vionet/bench/peer"
	"vionet/bench/report"
)

// virtqueues are what every path is measured over.
var virtqueues = []struct {
	ring            string
	packed, inOrder bool
}{
	{"split", false, false}, {"split", false, true}, {"packed", true, false}, {"packed", true, true},
}

// checksum asks for an offload of the TCP checksum, which takes the simple paths away.
const checksum = "0x8"

// paths compares testpmds: the same mode, with the same generator or sink, over every
// path of DPDK's driver and of ours.
func paths() Table {
	t := Table{report: report.Table{
		Name: "driver-paths", Title: "Cost of a front end, by path", Unit: report.Nanoseconds,
		Note: "testpmd's modes txonly and rxonly, 64 B, in bursts of 32, against a back end that touches no data. " +
			"The generator of txonly is a part of the cost. Cycles are those of the time-stamp counter.",
		Drawing: &report.Drawing{Kind: report.Bars, Across: report.Ring},
	}}
	for _, v := range virtqueues {
		for _, path := range []string{"simple", "standard"} {
			t.add(report.Coordinates{Topology: "transmit", Ring: v.ring, InOrder: v.inOrder, Tx: path})
		}
		for _, path := range []string{"simple", "standard", "mergeable"} {
			t.add(report.Coordinates{Topology: "receive", Ring: v.ring, InOrder: v.inOrder, Rx: path, Mergeable: path == "mergeable"})
		}
	}
	// DPDK's vectorized paths: of a split ring in whatever order for receiving, of a
	// packed one in order.
	t.add(report.Coordinates{Topology: "receive", Ring: "split", Rx: "simple", Vector: true})
	t.add(report.Coordinates{Topology: "transmit", Ring: "packed", InOrder: true, Tx: "simple", Vector: true})
	t.add(report.Coordinates{Topology: "receive", Ring: "packed", InOrder: true, Rx: "simple", Vector: true})
	return t
}

func (t *Table) add(at report.Coordinates) {
	at.Size, at.Burst, at.Queues = frameLen+4, 32, 1
	t.cells = append(t.cells, cell{
		Cell: report.Cell{
			Name: pathName("path", at), At: at, Bar: report.Bar{Most: 1},
			Against: report.Contestant{Name: "DPDK"}, Of: report.Contestant{Name: "vionet"},
		},
		against: testpmd(peer.DPDK, at), of: testpmd(peer.Vionet, at),
	})
}

// pathName is the name of a cell: what is measured, direction, ring, path.
func pathName(what string, at report.Coordinates) string {
	words := []string{what, at.Topology, at.Ring}
	if at.InOrder {
		words = append(words, "inorder")
	}
	words = append(words, at.Tx+at.Rx)
	if at.Vector {
		words = append(words, "vector")
	}
	return strings.Join(words, "/")
}

// testpmd is a front end whose mode sends or receives.
func testpmd(end peer.End, at report.Coordinates) front {
	return func(w Where, socket string) []string {
		name := "dpdk"
		if end.Vionet {
			name = "vionet"
		}
		argv := end.Command(w.Vionet, "only"+name, w.Front)
		bit := map[bool]int{true: 1}
		devargs := fmt.Sprintf("net_virtio_user0,path=%s,queue_size=256,mrg_rxbuf=%d,packed_vq=%d,in_order=%d",
			socket, bit[at.Mergeable], bit[at.Ring == "packed"], bit[at.InOrder])
		if at.Vector && !end.Vionet {
			devargs += ",vectorized=1"
			argv = append(argv, "--force-max-simd-bitwidth=512")
		}
		mode := "--forward-mode=txonly"
		if at.Rx != "" {
			mode = "--forward-mode=rxonly"
		}
		argv = append(argv, "--vdev", devargs, "--", "--total-num-mbufs=16384", mode, fmt.Sprintf("--txpkts=%d", frameLen+4))
		if at.Tx == "standard" {
			argv = append(argv, "--tx-offloads="+checksum)
		}
		if at.Rx == "standard" {
			argv = append(argv, "--rx-offloads="+checksum)
		}
		return argv
	}
}
