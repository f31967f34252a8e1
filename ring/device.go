package ring

import (
	"encoding/binary"
	"fmt"
)

// Device is the device's side of a virtqueue, split or packed. One goroutine at
// a time owns it.
//
// Take hands out the chains that the driver made available, in order; Complete
// gives them back; Flush shows a whole burst of completions with one store.
// Where IN_ORDER was negotiated, chains are completed in the order in which
// they were taken. Take and Complete work on bursts, so that calling them
// through the interface costs nothing for each packet.
type Device interface {
	// Size is the number of descriptors.
	Size() int
	// Pending is the number of chains that are known to be there to take: 0
	// when there are none, and after a broken rule. A packed virtqueue knows
	// of one at a time.
	Pending() int
	// Take takes up to len(chains) chains, whose pieces follow each other in
	// pieces, and returns how many there are: fewer when there are no more, or
	// no more pieces. A chain that breaks a rule is the end of the ring, after
	// those before it; one longer than pieces counts as broken.
	Take(chains []Chain, pieces []Piece) int
	// Return puts the last n chains that were taken back, to be taken again.
	Return(n int)
	// Complete gives chains back, which were taken, with the bytes that were
	// written into them. The driver sees them after Flush.
	Complete(done []Completion)
	// Flush shows the driver everything completed, and reports whether it
	// wants an interrupt for that.
	Flush() (interrupt bool)
	// Notify says whether the driver shall notify the device of new chains.
	// Having switched it on, the device looks at Pending once more before it
	// sleeps; awake, it switches it off and on anew before the next sleep.
	Notify(on bool)
	// Base is where another device would go on: of a split virtqueue the index
	// of the first available entry that was not taken; of a packed one the
	// position of the first descriptor that was not taken and, in the upper 16
	// bits, that of the next used one. A position is an offset with the wrap
	// counter in bit 15.
	Base() uint32
	// Fail makes the ring unusable because the driver broke a rule; the first
	// broken rule is kept. It returns false, for the caller to return.
	Fail(field, rule string, got uint64) bool
	// Err is nil, or the rule that the driver broke; it is a *RuleError. No
	// chain is handed out any more.
	Err() error
}

var (
	_ Device = (*SplitDevice)(nil)
	_ Device = (*PackedDevice)(nil)
)

// DeviceOptions are what the device's side of a virtqueue depends on beside its
// memory.
type DeviceOptions struct {
	// Translate finds the tables of indirect descriptors.
	Translate Translate
	// EventIdx says that both sides tell by index when they want to be
	// notified (EVENT_IDX).
	EventIdx bool
	// ReadTables says that the device only reads, and so takes the entries of a
	// packed virtqueue's indirect tables whether they say so or not: DPDK 22.11
	// leaves WRITE on some of those in its transmit queues.
	ReadTables bool
}

// Piece is one descriptor of a chain as the device sees it: Len bytes at the
// device address Addr, for the device to write, or else to read.
type Piece struct {
	Addr  uint64
	Len   uint32
	Write bool
}

// Chain is a chain that the device took.
type Chain struct {
	Head   uint16 // or buffer id
	Pieces uint16
}

// Translate gives the n bytes at a device address, or false when they do not
// all lie in memory that the driver shares. It must not keep the address.
type Translate func(addr uint64, n uint32) ([]byte, bool)

// rules is what both kinds of rings check in the same way.
type rules struct {
	translate Translate
	size      int
	err       error
}

// Size is the number of descriptors.
func (r *rules) Size() int { return r.size }

// Err is nil, or the rule that the driver broke.
func (r *rules) Err() error { return r.err }

// Fail makes the ring unusable; see Device.
func (r *rules) Fail(field, rule string, got uint64) bool {
	if r.err == nil {
		r.err = &RuleError{Field: field, Rule: rule, Got: got}
	}
	return false
}

// put stores piece n of a chain and checks that what the device reads comes
// before what it writes (section 2.7.4.2). That pieces are short breaks no rule
// yet: see tooLong.
func (r *rules) put(pieces []Piece, n int, desc Desc) bool {
	if n >= len(pieces) {
		return false
	}
	write := desc.Flags&DescWrite != 0
	if !write && n > 0 && pieces[n-1].Write {
		return r.Fail("descriptor flags", "a buffer to read behind one to write", uint64(desc.Flags))
	}
	pieces[n] = Piece{Addr: desc.Addr, Len: desc.Len, Write: write}
	return true
}

// tooLong ends a Take at chain i, which was not taken. If it is the first and
// broke no other rule, all the pieces that there are were too few for it.
func (r *rules) tooLong(i int, pieces []Piece) int {
	if i == 0 {
		r.Fail("chain length", "more pieces than this device takes in one go", uint64(len(pieces)+1))
	}
	return i
}

// table finds the table that an indirect descriptor points to (sections
// 2.7.5.3 and 2.8.7).
func (r *rules) table(at Desc) ([]byte, bool) {
	if at.Flags&DescNext != 0 {
		return nil, r.Fail("descriptor flags", "an indirect descriptor has no next one", uint64(at.Flags))
	}
	entries := at.Len / DescSize
	if at.Len%DescSize != 0 || entries == 0 || int64(entries) > int64(r.size) {
		return nil, r.Fail("indirect length", "it is not a table of 1 to as many descriptors as the virtqueue has", uint64(at.Len))
	}
	table, ok := r.translate(at.Addr, at.Len)
	if !ok {
		return nil, r.Fail("indirect address", "it is not in shared memory", at.Addr)
	}
	return table, true
}

// decodeDesc reads a descriptor of a table, which may stand at any address.
func decodeDesc(b []byte) Desc {
	_ = b[DescSize-1]
	return Desc{
		Addr:  binary.LittleEndian.Uint64(b),
		Len:   binary.LittleEndian.Uint32(b[8:]),
		Flags: binary.LittleEndian.Uint16(b[12:]),
		Next:  binary.LittleEndian.Uint16(b[14:]),
	}
}

func checkDeviceAreas(size int, desc, driver, device []byte, descLen, driverLen, deviceLen int) error {
	if len(desc) < descLen || len(driver) < driverLen || len(device) < deviceLen {
		return fmt.Errorf("ring: areas of %d, %d and %d bytes are too short for %d descriptors", len(desc), len(driver), len(device), size)
	}
	if !aligned(desc, DescSize) || !aligned(driver, 4) || !aligned(device, 4) {
		return fmt.Errorf("ring: misaligned area: descriptors need 16 bytes, the driver's and the device's area 4")
	}
	return nil
}
