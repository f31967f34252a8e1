package port

import (
	"context"
	"errors"
	"net"

	"vionet/mbuf"
)

// Errors that a port's methods wrap, for errors.Is.
var (
	// ErrNotSupported: neither this port nor its device has that function.
	ErrNotSupported = errors.New("operation not supported")
	// ErrInvalid: a value out of range; the error's text names the range.
	ErrInvalid = errors.New("invalid argument")
	// ErrState: not in this state, such as a change of offloads while the
	// port is started.
	ErrState = errors.New("wrong port state")
	// ErrGone: the device was removed; close the port.
	ErrGone = errors.New("the device is gone")
	// ErrClosed: the port was closed.
	ErrClosed = net.ErrClosed
)

// Config is what an application asks of a port before Start.
type Config struct {
	RxQueues, TxQueues int // number of queues; 0 means 1
	RxDesc, TxDesc     int // descriptors of each queue; 0: the device's size
	// TxFreeThresh is the number of free descriptors below which a transmit
	// queue takes completed ones back; 0: a quarter of them.
	TxFreeThresh int
	RxOffloads   RxOffloads
	TxOffloads   TxOffloads
	MTU          int // bytes of L3 data; 0: the port's default, 1500
	// RxInterrupts makes RxQueue.Wait possible.
	RxInterrupts bool
	// TxInterrupts makes TxWaiter.Wait possible, where a port's transmit queues
	// have it.
	TxInterrupts bool
	// RSS asks for receive-side scaling; nil: the device spreads packets as it
	// likes. A field that is zero stays as it was; at first that is the usual
	// key, a table that goes round the receive queues, and all types.
	RSS *RSS
	// WhereAvailable drops offloads that the device lacks, and queues beyond
	// those that it has, instead of failing; the port's Info and log say what
	// is left.
	WhereAvailable bool
	// Pool gives the buffers for received packets.
	Pool *mbuf.Pool
}

// Port is a network port. See the package comment for which goroutine may
// call what.
type Port interface {
	// Name is the device's name: a PCI address or a --vdev name.
	Name() string
	// Info describes the port and what it can do.
	Info() Info
	// Configure records what the next Start asks for. The port must be
	// stopped. On an error the configuration is the one from before.
	Configure(Config) error
	// Start makes the port's queues work.
	Start() error
	// Stop ends all traffic and frees the buffers that the port holds. It
	// does nothing on a stopped port.
	Stop() error
	// Close stops the port and gives the device back. A second call does
	// nothing.
	Close() error
	// RxQueue and TxQueue give a queue of a started port; i is below the
	// configured number of queues.
	RxQueue(i int) RxQueue
	TxQueue(i int) TxQueue
	// Stats reads the counters since the last ResetStats.
	Stats() Stats
	ResetStats()
	// Link reads the state of the link; it is down on a stopped port.
	Link() Link
	// Paths says which burst functions the last Start chose, and why.
	Paths() Paths
	// SetPromiscuous switches the reception of frames for other stations.
	SetPromiscuous(on bool) error
	// Notify registers the function that is told of the port's events, in
	// place of the one before; nil: none. It is called on a goroutine of the
	// port's own and must not call the port.
	Notify(func(Event))
}

// RxQueue is the receive side of one queue.
type RxQueue interface {
	// Burst receives up to len(bufs) packets into bufs and returns how many.
	// They belong to the caller. It never waits.
	Burst(bufs []*mbuf.Buf) int
	// Wait sleeps until packets may be there, or until ctx is done, and costs
	// nothing while nobody calls it. Between its return and the next call
	// packets are polled for. The port must have been configured with
	// RxInterrupts; otherwise the error wraps ErrNotSupported. The goroutine
	// that calls Burst calls it.
	Wait(ctx context.Context) error
	// UseCache makes the queue take its buffers through c, so that a
	// goroutine that drives several queues has one warm stack of buffers. c
	// must be a cache of the configured pool.
	UseCache(c *mbuf.Cache)
	// Err is nil, or why the queue has stopped for good: the device broke a
	// rule of the specification.
	Err() error
}

// TxQueue is the transmit side of one queue.
type TxQueue interface {
	// Burst takes packets from the front of bufs, as many as there is room
	// for, and returns how many: these belong to the port and are freed when
	// they are sent. The others still belong to the caller. A packet that
	// asks for what the port can't do is taken, freed and counted as an
	// error. It never waits.
	Burst(bufs []*mbuf.Buf) int
	// Reclaim frees the packets that were sent and returns their number.
	// Burst does so on its own; Reclaim is for queues without traffic.
	Reclaim() int
	// UseCache makes the queue free packets into c.
	UseCache(c *mbuf.Cache)
	// Err is nil, or why the queue has stopped for good.
	Err() error
}

// TxWaiter is a TxQueue on which a sender can sleep while the ring is full; a
// type assertion tells.
type TxWaiter interface {
	// Wait sleeps until at least free descriptors, 1 to as many as the queue
	// has, are free, or until ctx is done, whose cause it returns then. Packets
	// that were sent are freed on the way. The device wakes the sender once for
	// many descriptors, where it can be told to (EVENT_IDX). The port must have
	// been configured with TxInterrupts; otherwise the error wraps
	// ErrNotSupported. After Stop or Close it wraps ErrClosed, on a queue whose
	// device broke a rule it is Err. The goroutine that calls Burst calls it.
	Wait(ctx context.Context, free int) error
}

// Stats are a port's counters. Bytes are those of Ethernet frames, without
// the virtio-net header and without the frame check sequence.
type Stats struct {
	RxPackets, RxBytes uint64 // received
	TxPackets, TxBytes uint64 // given to the device
	RxMissed           uint64 // frames that the device had no buffer for, where it tells
	RxErrors           uint64 // frames dropped because their header was broken
	RxNoBuf            uint64 // buffers that the pool could not give
	TxErrors           uint64 // packets dropped because they asked for what is not there
	Rx, Tx             []QueueStats
}

// QueueStats are the counters of one queue: what it adds to those of Stats.
type QueueStats struct {
	Packets, Bytes, Missed, Errors, NoBuf uint64
}

// Totals gives s with the sums over its queues filled in.
func (s Stats) Totals() Stats {
	for _, q := range s.Rx {
		s.RxPackets += q.Packets
		s.RxBytes += q.Bytes
		s.RxMissed += q.Missed
		s.RxErrors += q.Errors
		s.RxNoBuf += q.NoBuf
	}
	for _, q := range s.Tx {
		s.TxPackets += q.Packets
		s.TxBytes += q.Bytes
		s.TxErrors += q.Errors
	}
	return s
}

// Link is the state of a port's link.
type Link struct {
	Up         bool   // frames can come and go
	Speed      uint32 // Mb/s; SpeedUnknown, or 0 when down
	FullDuplex bool
}

// SpeedUnknown is the Link.Speed of a link whose speed nobody told.
const SpeedUnknown = 0xffffffff

// Event is something that happened to a port by itself.
type Event int

// Events.
const (
	// LinkChange: the link went up or down; read it with Link.
	LinkChange Event = iota
	// NeedsReset: the device asked to be reset, or a queue is broken.
	NeedsReset
	// Removed: the device is gone, or about to go. Stop all bursts and close
	// the port.
	Removed
	// Announce: the device wants the application to send packets that show its
	// addresses to the network, such as gratuitous ARP; the machine has moved,
	// say. The port sends none: it does not know the addresses, and its transmit
	// queues are the application's.
	Announce
)

// Info describes a port.
type Info struct {
	Name    string // as Port.Name
	Driver  string // "net_virtio", "net_virtio_user", …
	Devargs string // the arguments it was opened with
	MAC     net.HardwareAddr
	MTU     int
	MinMTU  int
	MaxMTU  int

	RxQueues, TxQueues       int // configured
	MaxRxQueues, MaxTxQueues int
	RxDesc, TxDesc           int // of a started queue
	MinDesc, MaxDesc         int

	MinRxBufSize int // bytes
	MaxRxPktLen  int // bytes
	MaxMACs      int
	Promiscuous  bool

	RxLends bool // received packets may be lent: see mbuf.Lender
	TxDMA   bool // a device reads sent packets itself: lent ones are refused

	RxCapa RxOffloads // what the device offers
	TxCapa TxOffloads
	// RxActive and TxActive are those of the last successful Start.
	RxActive RxOffloads
	TxActive TxOffloads

	// Offered and Negotiated are the names of the features that the device offers,
	// and of those that the last Start took; empty where there are no such bits.
	Offered, Negotiated []string
	// Paths are what Port.Paths gives; empty where Info leaves them out.
	Paths Paths
	// IOVA is where the device's addresses come from, "va", "ranges" or "pa", as
	// mbuf.IOVAMode names them; "" where no device reads the memory.
	IOVA string
}

// Path is a burst function and the reason for it.
type Path struct {
	Name   string // "simple", "standard", "mergeable", …
	Reason string // why this one
	Unlock string // what would have to change for a simpler one; "" if it is the simplest
}

// Paths are the burst functions of a started port.
type Paths struct{ Rx, Tx Path }
