package engine

import "math/rand/v2"

// dice are random numbers for one goroutine, as cheap as can be: Marsaglia's
// xorshift.
type dice uint64

func newDice() dice { return dice(rand.Uint64() | 1) }

// roll gives a number below n.
func (d *dice) roll(n uint64) uint64 {
	x := *d
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*d = x
	return uint64(x) % n
}
