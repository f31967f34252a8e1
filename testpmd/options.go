package testpmd

import (
	"fmt"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/testpmd/engine"
)

// Topology says which port's packets leave through which.
type Topology string

// Topologies.
const (
	Paired  Topology = "paired"  // 0 with 1, 2 with 3, …; an odd last one with itself
	Chained Topology = "chained" // to the next one, from the last to the first
	Loop    Topology = "loop"    // back through the same port
)

// Core is a core that forwards.
type Core struct {
	ID   int   // the number that people know it by: its lcore
	CPUs []int // the processors it may use; none: any
}

// Options are the settings that a console starts with.
type Options struct {
	Interactive bool
	AutoStart   bool          // start forwarding before the first prompt
	TxFirst     int           // bursts to send before a non-interactive run forwards
	StatsPeriod time.Duration // between two prints of port statistics; 0: none
	CmdlineFile string        // commands to run before the first prompt

	Mode     string // name of the forwarding mode
	Topology Topology
	Burst    int
	NbCores  int  // forwarding cores in use
	FlushRx  bool // throw away what was received before forwarding starts
	MuteLink bool // print nothing when a link changes

	RxQueues, TxQueues int // of every port
	RxDesc, TxDesc     int // 0: the device's size
	RxOffloads         port.RxOffloads
	TxOffloads         port.TxOffloads
	TxSegs             []int           // segment lengths of generated packets
	Peers              map[int][6]byte // MAC addresses behind ports
}

// DefaultOptions are those of testpmd without arguments.
func DefaultOptions() Options {
	return Options{
		Mode: engine.IO.Name, Topology: Paired, Burst: defaultBurst, NbCores: 1, FlushRx: true,
		RxQueues: 1, TxQueues: 1, TxSegs: []int{engine.DefaultTxLen}, Peers: map[int][6]byte{},
	}
}

const defaultBurst = 32

// Retries of bursts in the variants of modes "with retry".
const (
	defaultRetries = 64
	defaultDelay   = time.Microsecond
)

// maxTxSegs is the number of segments that a generated packet may have.
const maxTxSegs = 255

// CheckTxSegs says whether packets with segments of these lengths can be
// generated into buffers that hold room bytes of data.
func CheckTxSegs(segs []int, room int) error {
	if len(segs) == 0 || len(segs) > maxTxSegs {
		return fmt.Errorf("nb segments per TX packet=%d: must be >= 1 && <= %d - give up", len(segs), maxTxSegs)
	}
	total := 0
	for i, n := range segs {
		if n < 1 || n > room {
			return fmt.Errorf("length[%d]=%d: must be >= 1 && <= %d - give up", i, n, room)
		}
		total += n
	}
	if total < engine.MinTxLen {
		return fmt.Errorf("total packet length=%d < %d - give up", total, engine.MinTxLen)
	}
	if total > maxTxLen {
		return fmt.Errorf("total packet length=%d > %d - give up", total, maxTxLen)
	}
	return nil
}

// maxTxLen keeps the length in the IPv4 header of generated packets in 16
// bits.
const maxTxLen = 65535

// TxRoom is the space for data in a pool's buffers.
func TxRoom(pool *mbuf.Pool) int { return pool.BufSize() - mbuf.Headroom }
