package report

import (
	"fmt"
	"strconv"
)

// Coordinates are a place in the matrix of configurations. A coordinate that a
// benchmark does not have is left at zero.
type Coordinates struct {
	Topology  string `json:"topology,omitempty"` // as "guest-to-host", see TopologyTitle
	Ring      string `json:"ring,omitempty"`     // "split" or "packed"
	InOrder   bool   `json:"in_order,omitempty"`
	Mergeable bool   `json:"mergeable,omitempty"` // receive buffers
	Tx        string `json:"tx,omitempty"`        // the transmit path: "simple" or "standard"
	Rx        string `json:"rx,omitempty"`        // the receive path: "simple", "standard" or "mergeable"
	Offloads  bool   `json:"offloads,omitempty"`  // requested
	Vector    bool   `json:"vector,omitempty"`    // DPDK's vectorized paths, with 512 bits allowed
	Size      int    `json:"size,omitempty"`      // bytes of a frame, without its check sequence
	Queues    int    `json:"queues,omitempty"`    // queue pairs
	Burst     int    `json:"burst,omitempty"`     // packets at a time
	RingSize  int    `json:"ring_size,omitempty"` // descriptors of a queue
	Segments  int    `json:"segments,omitempty"`  // buffers of a packet
	Buffers   int    `json:"buffers,omitempty"`   // of the pool
	Peer      string `json:"peer,omitempty"`      // the other end, where it is not the same for all
	// Machine is where the front end runs: "" beside its host, or in a guest
	// under "tcg" or "kvm".
	Machine string `json:"machine,omitempty"`
	IOMMU   bool   `json:"iommu,omitempty"` // of that guest translates the device's addresses
}

// Coordinate is the name of a coordinate.
type Coordinate string

// The coordinates, in the order in which they describe a cell.
const (
	Topology  Coordinate = "topology"
	Ring      Coordinate = "ring"
	Order     Coordinate = "order"
	Mergeable Coordinate = "mergeable"
	Tx        Coordinate = "tx"
	Rx        Coordinate = "rx"
	Offloads  Coordinate = "offloads"
	Vector    Coordinate = "vector"
	Size      Coordinate = "size"
	Queues    Coordinate = "queues"
	Burst     Coordinate = "burst"
	RingSize  Coordinate = "ring size"
	Segments  Coordinate = "segments"
	Buffers   Coordinate = "buffers"
	Place     Coordinate = "machine"
	Peer      Coordinate = "peer"
	IOMMU     Coordinate = "iommu"
)

// coordinates is their order.
var coordinates = []Coordinate{Place, Peer, IOMMU, Topology, Ring, Order, Mergeable, Tx, Rx, Offloads, Vector, Size, Queues, Burst, RingSize, Segments, Buffers}

// topologies are the titles of the published tables.
var topologies = map[string]string{
	"pvp":           "PVP",
	"guest-to-host": "Guest->Host",
	"host-to-guest": "Host->Guest",
	"loopback":      "Loopback",
}

// TopologyTitle is a topology as the published tables write it.
func TopologyTitle(name string) string {
	if title, known := topologies[name]; known {
		return title
	}
	return name
}

// Number is the value of a coordinate that is a number, 0 for any other.
func (c Coordinates) Number(of Coordinate) int {
	switch of {
	case Size:
		return c.Size
	case Queues:
		return c.Queues
	case Burst:
		return c.Burst
	case RingSize:
		return c.RingSize
	case Segments:
		return c.Segments
	case Buffers:
		return c.Buffers
	}
	return 0
}

// Value is a coordinate in words that need no heading, as "packed" or "64 B"; ""
// where the benchmark does not have it.
func (c Coordinates) Value(of Coordinate) string {
	switch of {
	case Topology:
		return TopologyTitle(c.Topology)
	case Ring:
		return c.Ring
	case Order:
		return either(c.InOrder, "in order", "")
	case Mergeable:
		return either(c.Mergeable, "mergeable", "")
	case Tx:
		return prefixed("Tx ", c.Tx)
	case Rx:
		return prefixed("Rx ", c.Rx)
	case Offloads:
		return either(c.Offloads, "offloads", "")
	case Vector:
		return either(c.Vector, "vectorized", "")
	case Place:
		return c.Machine
	case Peer:
		return c.Peer
	case IOMMU:
		if c.Machine == "" {
			return ""
		}
		return either(c.IOMMU, "IOMMU", "no IOMMU")
	case Size:
		return counted(c.Size, "B")
	case Queues:
		return counted(c.Queues, either(c.Queues == 1, "pair", "pairs"))
	case Burst:
		return prefixed("burst ", digits(c.Burst))
	case RingSize:
		return prefixed("ring ", digits(c.RingSize))
	case Segments:
		return counted(c.Segments, either(c.Segments == 1, "segment", "segments"))
	case Buffers:
		return counted(c.Buffers, "buffers")
	}
	return ""
}

// Plain is a coordinate in words that stand below its name, as "on" or "64".
func (c Coordinates) Plain(of Coordinate) string {
	switch of {
	case Order:
		return switched(c.InOrder)
	case Mergeable:
		return switched(c.Mergeable)
	case Offloads:
		return switched(c.Offloads)
	case Vector:
		return switched(c.Vector)
	case IOMMU:
		return switched(c.IOMMU)
	case Tx:
		return c.Tx
	case Rx:
		return c.Rx
	}
	if n := c.Number(of); n > 0 {
		return digits(n)
	}
	return c.Value(of)
}

func switched(on bool) string { return either(on, "on", "off") }

func either(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func prefixed(prefix, s string) string { return either(s == "", "", prefix+s) }

func digits(n int) string { return either(n == 0, "", strconv.Itoa(n)) }

func counted(n int, of string) string { return either(n == 0, "", fmt.Sprintf("%d %s", n, of)) }
