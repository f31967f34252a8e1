package ring

import "iter"

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

	err error
}

func newChains(size, limit int) chains {
	c := chains{heads: make([]uint16, size), length: make([]uint16, size), put: limit % size, spare: limit}
	for i := range limit {
		c.heads[i] = uint16(i)
	}
	return c
}

// takeHead gives a free head; there is one.
func (c *chains) takeHead() uint16 {
	id := c.heads[c.get]
	c.spare--
	if c.get++; c.get == len(c.heads) {
		c.get = 0
	}
	return id
}

// putHead takes a head back.
func (c *chains) putHead(id uint16) {
	c.heads[c.put] = id
	c.spare++
	if c.put++; c.put == len(c.heads) {
		c.put = 0
	}
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
	if id >= uint32(len(c.length)) {
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
