package ring

import (
	"iter"
	"math/bits"
)

// chains is what the driver knows of its chains, in private memory: the heads
// that are free, and how many descriptors of the ring each of the others takes.
type chains struct {
	// heads is a circle in which those that nobody uses stand from get to put,
	// spare of them. First in, first out, so that a device that uses buffers in
	// order finds the same head in the same place each time round.
	heads           []uint16
	get, put, spare int

	// length is 0 for a head that is free, or part of another's chain.
	length []uint16

	size int // heads are below it
	err  error
}

func newChains(size, limit int) chains {
	n := powerOfTwo(size)
	c := chains{heads: make([]uint16, n), length: make([]uint16, n), put: limit % n, spare: limit, size: size}
	for i := range limit {
		c.heads[i] = uint16(i)
	}
	return c
}

// powerOfTwo is the least one that is not below n. Tables by head have such a
// length: a head that is masked with it lies within the table, which the
// compiler sees, so that inner loops need no check.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

// takeEach fills heads with free ones, each that of a chain of one descriptor.
// There are enough.
func (c *chains) takeEach(heads []uint16) {
	spare := c.heads
	if len(spare) == 0 {
		return // no ring is that small, but the compiler does not know
	}
	mask, length, get := len(spare)-1, c.length[:len(spare)], c.get
	for i := range heads {
		head := spare[get&mask]
		length[int(head)&mask] = 1
		heads[i] = head
		get++
	}
	c.get = get & mask
	c.spare -= len(heads)
}

// takeHead gives a free head; there is one.
func (c *chains) takeHead() uint16 {
	id := c.heads[c.get]
	c.spare--
	c.get = (c.get + 1) & (len(c.heads) - 1)
	return id
}

// putHead takes a head back.
func (c *chains) putHead(id uint16) {
	c.heads[c.put] = id
	c.spare++
	c.put = (c.put + 1) & (len(c.heads) - 1)
}

// NextHead is the head that the next AddEach or AddChains gives first.
func (c *chains) NextHead() uint16 { return c.heads[c.get] }

// Outstanding goes through the heads of the chains that the device owns.
func (c *chains) Outstanding() iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for head, n := range c.length {
			if n != 0 && !yield(uint16(head)) {
				return
			}
		}
	}
}

// owned reports whether id, as the device wrote it, is the head of a chain that
// the device owns, and makes the ring unusable if not.
func (c *chains) owned(id uint32) bool {
	if id >= uint32(c.size) {
		c.Fail("used id", "it is not a descriptor of this queue", uint64(id))
		return false
	}
	if c.length[id] == 0 {
		c.Fail("used id", "the device does not own that chain", uint64(id))
		return false
	}
	return true
}

// Err is nil, or the rule that the device broke; it is a *RuleError.
func (c *chains) Err() error { return c.err }

// Fail makes the ring unusable because of a rule that only its owner can
// check; the first broken rule is kept.
func (c *chains) Fail(field, rule string, got uint64) {
	if c.err == nil {
		c.err = &RuleError{Field: field, Rule: rule, Got: got}
	}
}
