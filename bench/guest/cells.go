package guest

import (
	"fmt"

	"vionet/bench/report"
)

// topology is who sends; the host counts.
type topology struct {
	name      string
	guestMode string // the forwarding mode of the guest's testpmds
	host      part
}

// part is what the host does.
type part int

const (
	drains   part = iota // receives
	floods               // sends all that the guest takes
	reflects             // sends a few frames and whatever comes back
)

var topologies = []topology{
	{"guest-to-host", "txonly", drains},
	{"host-to-guest", "rxonly", floods},
	{"loopback", "io", reflects},
}

// sizes are those of the frames, in bytes.
var sizes = []int{64, 1400}

// floor is the ratio to reach in every cell.
const floor = 1.1

// machine is a guest and its host.
type machine struct {
	processor string // "tcg" or "kvm"
	qemu      bool   // the device is QEMU's, or else DPDK's vhost
	packed    bool
	iommu     bool // translates the device's addresses
}

// machines are those that are measured. A packed ring behind an IOMMU is left out on
// DPDK's vhost, which drops frames there now and then.
var machines = []machine{
	{},
	{packed: true},
	{iommu: true},
	{qemu: true, iommu: true},
	{qemu: true, iommu: true, packed: true},
	{qemu: true},
}

// cell is a configuration of both contestants.
type cell struct {
	machine
	topology
	size int
}

// cells are those of a machine.
func (m machine) cells() (cells []cell) {
	for _, t := range topologies {
		for _, size := range sizes {
			cells = append(cells, cell{m, t, size})
		}
	}
	return cells
}

func (m machine) peer() string {
	if m.qemu {
		return "qemu"
	}
	return "vhost"
}

func (m machine) ring() string {
	if m.packed {
		return "packed"
	}
	return "split"
}

// name is systematic: host, IOMMU, ring, topology and size.
func (c cell) name() string {
	iommu := "no-iommu"
	if c.iommu {
		iommu = "iommu"
	}
	return fmt.Sprintf("guest/%s/%s/%s/%s/%dB", c.peer(), iommu, c.ring(), c.topology.name, c.size)
}

// peers are the hosts as a table names them.
var peers = map[bool]string{false: "DPDK's vhost", true: "QEMU's device"}

// empty is the cell without a measurement. Both drivers take mergeable buffers, which
// both hosts offer.
func (c cell) empty() report.Cell {
	return report.Cell{
		Name: c.name(),
		At: report.Coordinates{
			Machine: c.processor, IOMMU: c.iommu, Peer: peers[c.qemu],
			Topology: c.topology.name, Ring: c.ring(), Mergeable: true,
			Size: c.size, Queues: 1, Burst: burst,
		},
		Against: report.Contestant{Name: "DPDK"},
		Of:      report.Contestant{Name: "vionet"},
		Bar:     report.Bar{Least: floor},
	}
}

// burst is testpmd's own, packets at a time.
const burst = 32
