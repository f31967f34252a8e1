// Package ring holds virtqueues: their layout in shared memory, the driver's
// side and the device's side of them. It knows addresses and descriptors, not
// packets.
//
// # Who writes what, and in which order
//
// Go's atomics are sequentially consistent and come in 32 bits. The words that
// the two sides share have 16, but each lies in an aligned 32-bit word that
// one side alone writes, so a 32-bit atomic serves:
//
//	word                       written by   publishes
//	avail flags | idx << 16    driver       descriptors and avail entries below idx
//	used  flags | idx << 16    device       used entries below idx, and the
//	                                        buffers that the device wrote
//
//	packed descriptor          driver, then the descriptor's address and length;
//	  id | flags << 16         device       of a burst's first one, the whole burst
//	driver event               driver       when it wants to be interrupted
//	device event               device       when it wants to be notified
//
// The word of a packed descriptor has two writers, in turn: its two wrap bits
// say whose it is, and neither writes while it is the other's.
//
// The driver stores the avail word after it has written the descriptors and
// the avail entries with plain stores; the device loads that word before it
// reads them. The used word works the same way in the other direction: the
// driver loads it, and then may read used entries and buffers below idx.
// Everything else in the ring is read and written with plain accesses, which
// the two words order.
//
// A kick can be lost in one way only: the driver publishes an index and reads
// "do not notify" in the used word, while the device writes "notify" and reads
// the old index. Each side writes one word and then reads the other's; with
// sequentially consistent atomics at least one of them sees the other's
// write (virtio 1.2, section 2.7.7.2). On amd64 the atomic store is XCHG, which
// is the full fence wanted between the two; on arm64 it is STLR followed by
// LDAR, which are ordered.
//
// Where a store is followed by such a look, it stands as a Swap whose result
// nobody wants: the same instruction on amd64. The race detector replaces atomics,
// and what it has for a store in memory that is not Go's own, as rings are, is no
// fence: of three million rounds of two sides that store and then look, both saw
// the old value in 106,065 with a store, and in none without the detector.
//
// An interrupt is lost in the same way with the sides changed over, and so it
// is not: Arm and ArmAfter write the wish and then look, Flush writes the index
// and then reads the wish.
//
// # Trust
//
// Neither side believes the other. What the peer writes is read once, into a
// local variable, and checked against private memory before it is used as an
// index or a length. A broken rule makes the ring unusable: methods then do
// nothing and Err says which rule it was.
package ring
