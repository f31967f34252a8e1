package ring

import (
	"fmt"
	"iter"
)

// Driver is the driver's side of a virtqueue, split or packed. One goroutine
// owns it. Its methods work on bursts, so that calling it through the interface
// costs nothing for each packet.
type Driver interface {
	// Free is the number of descriptors that can be added now.
	Free() int
	// Cost is the number of descriptors that a chain of n segments takes: n,
	// or 1 where it goes into an indirect table.
	Cost(n int) int
	// AddEach gives the device one buffer for each of segs, with DescWrite or 0
	// as flags, and puts the heads of the chains, by which completions name
	// them, into heads. The caller made sure that Free is at least len(segs).
	AddEach(segs []Segment, flags uint16, heads []uint16)
	// AddChains gives the device buffers of several pieces that it reads: the
	// first is made of the first lengths[0] of segs, the next of the following
	// lengths[1], and so on. The caller made sure that Free is at least the
	// sum of their Cost, and that every length is at least 1.
	AddChains(segs []Segment, lengths []uint16, heads []uint16)
	// AddRequest gives the device one chain of at least two pieces: it writes
	// the last, its answer, and reads the others. The ring has no indirect
	// tables. The caller made sure that Free is at least len(pieces).
	AddRequest(pieces []Segment) (head uint16)
	// NextHead is the head that the next AddEach or AddChains gives first, for
	// a caller that keeps memory by head and must fill it before. Free is not 0.
	NextHead() uint16
	// Publish shows the device all that was added.
	Publish()
	// NeedKick reports whether the device wants to be notified of what was
	// published since the last NeedKick (virtio 1.2, sections 2.7.10 and
	// 2.8.10). It comes after every Publish that showed something.
	NeedKick() bool
	// Position is where the next chain will be made available, as
	// NOTIFICATION_DATA puts it (section 2.9).
	Position() uint16
	// Harvest takes up to len(dst) completions, checks them and returns how
	// many there are; their descriptors are free again. After a broken rule it
	// returns those before it, and 0 from then on.
	Harvest(dst []Completion) int
	// Arm asks the device for an interrupt with the next completion. It
	// reports false, with nothing armed for sure, when a completion is there
	// already: look first, then sleep (section 2.7.7.1).
	Arm() bool
	// ArmAfter is Arm for who needs much room: with EVENT_IDX the interrupt comes
	// when about n of the descriptors that the device owns are free again, and
	// not before; without it with the next completion. n is 1 to the number of
	// descriptors that the device owns. Like Arm it reports false when a
	// completion is there already: harvest it, and ask anew for what is missing.
	ArmAfter(n int) bool
	// Disarm tells the device that no interrupts are wanted.
	Disarm()
	// Outstanding goes through the heads of the chains that the device owns. It
	// is for the end of a ring's life: the chains stay marked as the device's.
	Outstanding() iter.Seq[uint16]
	// Fail makes the ring unusable because of a rule that only its owner can
	// check; the first broken rule is kept.
	Fail(field, rule string, got uint64)
	// Err is nil, or the rule that the device broke; it is a *RuleError.
	Err() error
}

var (
	_ Driver = (*Split)(nil)
	_ Driver = (*Packed)(nil)
)

// Segment is one piece of memory for the device.
type Segment struct {
	Addr uint64 // device address
	Len  uint32 // bytes
}

// Completion is a chain that the device has used.
type Completion struct {
	Head uint16 // descriptor that the chain begins with
	Len  uint32 // bytes that the device says it wrote
}

// Options are the features that change how a virtqueue works.
type Options struct {
	// InOrder says that the device uses buffers in the order in which they
	// were made available, and may report a batch by its last one (IN_ORDER).
	InOrder bool
	// EventIdx says that both sides tell by index when they want to be
	// notified (EVENT_IDX).
	EventIdx bool
	// Indirect is memory for tables of descriptors, in which chains of several
	// pieces go (INDIRECT_DESC): IndirectLen bytes for each descriptor of the
	// ring. Nil: chains go into the ring itself.
	Indirect     []byte
	IndirectIOVA uint64
}

// IndirectEntries is the number of descriptors in an indirect table; longer
// chains go into the ring itself.
const IndirectEntries = 16

// IndirectLen is the size of an indirect table in bytes.
const IndirectLen = IndirectEntries * DescSize

// RuleError says which rule of the specification the other side of a ring
// broke. The ring is unusable until its device was reset.
type RuleError struct {
	Field string // the shared field
	Rule  string // what is wrong with it
	Got   uint64 // its value
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("%s %d from the other side of the virtqueue: %s", e.Field, e.Got, e.Rule)
}

// needEvent reports whether the other side, which wants to hear when event is
// passed, has to be notified after a move from old to now (section 2.7.7.2). It
// holds across the wrap of the index.
func needEvent(event, now, old uint16) bool {
	return now-event-1 < now-old
}
