package driver

import (
	"testing"
	"unsafe"
)

const cacheLine = 64

// The indexes of an XSK's ring are written by two goroutines, and so have a cache line
// each; what both only read has another.
func TestXSKRingLines(t *testing.T) {
	var r xskRing[XSKDesc]
	// Offsets and sizes are constants; no pointer is made.
	lines := map[uintptr]string{}
	for name, offset := range map[string]uintptr{
		"slots": unsafe.Offsetof(r.slots), "produced": unsafe.Offsetof(r.produced),
		"consumed": unsafe.Offsetof(r.consumed), "asleep": unsafe.Offsetof(r.asleep),
	} {
		if other, taken := lines[offset/cacheLine]; taken {
			t.Errorf("%s and %s share a line", name, other)
		}
		lines[offset/cacheLine] = name
	}
	for name, size := range map[string]uintptr{
		"ring": unsafe.Sizeof(r), "producer's side": unsafe.Sizeof(ProducerRing[XSKDesc]{}), "consumer's side": unsafe.Sizeof(ConsumerRing[XSKDesc]{}),
	} {
		if size%cacheLine != 0 {
			t.Errorf("the %s has %d bytes: what comes behind it shares a line with it", name, size)
		}
	}
}

// Each queue is driven by a goroutine of its own, and counts in itself. Go places what
// is larger than a kibibyte at a multiple of 128 bytes, so that no line of one queue is
// another's.
func TestQueueLines(t *testing.T) {
	for name, size := range map[string]uintptr{"receive": unsafe.Sizeof(RxQueue{}), "transmit": unsafe.Sizeof(TxQueue{})} {
		if size <= 1024 {
			t.Errorf("a %s queue has %d bytes: it may share a line with another", name, size)
		}
	}
}
