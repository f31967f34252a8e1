package testpmd

import (
	"fmt"
	"slices"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/testpmd/engine"
	"vionet/virtio"
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
	Interactive bool          // with a prompt
	AutoStart   bool          // start forwarding before the first prompt
	TxFirst     int           // bursts to send before a non-interactive run forwards
	StatsPeriod time.Duration // between two prints of port statistics; 0: none
	CmdlineFile string        // commands to run before the first prompt
	Xstats      []string      // extended statistics that "show port stats" shows as well
	HistoryFile string        // where lines that were typed are kept; "": nowhere

	Mode          string // name of the forwarding mode
	Topology      Topology
	Burst         int
	NbCores       int           // forwarding cores in use
	NbPorts       int           // forwarding ports in use; 0: all
	PortList      []int         // forwarding ports in order of use; none: all
	CoreList      []int         // forwarding cores in order of use, by lcore; none: all
	SkipLinkCheck bool          // starting and stopping ports says nothing of their links
	KeepStopped   bool          // leave the ports stopped at first
	FlushRx       bool          // throw away what was received before forwarding starts
	MuteLink      bool          // print nothing when a link changes
	PollMode      PollMode      // what forwarding cores do while nothing moves
	Spin          time.Duration // without a packet, before a core sleeps in PollAdaptive
	// RecordCycles and RecordBursts add what forwarding costs, and how full its
	// bursts are, to the statistics of forwarding.
	RecordCycles, RecordBursts bool

	RxQueues, TxQueues int // of every port
	RxDesc, TxDesc     int // 0: the device's size
	RxThresholds       Thresholds
	TxThresholds       Thresholds
	DropEnable         bool // said of receive queues, and without effect: frames without a buffer are always dropped
	MaxPktLen          int  // bytes of the longest frame of every port; 0: as it is
	RxOffloads         port.RxOffloads
	TxOffloads         port.TxOffloads
	RSSTypes           virtio.HashTypes // what ports with several queues spread packets by; 0: no RSS
	TxSegs             []int            // segment lengths of generated packets
	MultiFlow          bool             // mode txonly sends many flows
	TxAddrs            [2][4]byte       // source and destination in mode txonly; zero: the usual ones
	TxPorts            [2]uint16
	Flows, Clones      int // of mode flowgen
	Noise              engine.Noise
	Peers              map[int][6]byte // MAC addresses behind ports
}

// Thresholds are the numbers that queues of some devices take. Free counts
// descriptors: below so many free ones a queue takes completed ones back. The
// others are kept and shown; virtio has no place for them. 0: the driver's.
type Thresholds struct {
	Free, RS                  int
	Prefetch, Host, WriteBack int
}

// DefaultOptions are those of testpmd without arguments.
func DefaultOptions() Options {
	return Options{
		Mode: engine.IO.Name, Topology: Paired, Burst: defaultBurst, NbCores: 1, FlushRx: true,
		PollMode: PollBusy, Spin: DefaultSpin,
		RxQueues: 1, TxQueues: 1, RSSTypes: rssIP, TxSegs: []int{engine.DefaultTxLen}, Peers: map[int][6]byte{},
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
		if n > room {
			return fmt.Errorf("length[%d]=%d > mbuf_data_size=%d - give up", i, n, room)
		}
		total += n
	}
	if total < engine.MinTxLen {
		return fmt.Errorf("total packet length=%d < %d - give up", total, engine.MinTxLen)
	}
	if i := slices.Index(segs, 0); i >= 0 {
		return fmt.Errorf("length[%d]=0 < 1 - give up", i)
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
