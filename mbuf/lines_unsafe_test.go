package mbuf

import (
	"testing"
	"unsafe"
)

// A burst that asks for nothing touches one of the two cache lines of each Buf.
func TestBufLines(t *testing.T) {
	var b Buf
	// Offsets and sizes are constants; no pointer is made.
	for name, end := range map[string]uintptr{
		"mem": unsafe.Offsetof(b.mem) + unsafe.Sizeof(b.mem), "iova": unsafe.Offsetof(b.iova) + unsafe.Sizeof(b.iova),
		"next": unsafe.Offsetof(b.next) + unsafe.Sizeof(b.next), "pool": unsafe.Offsetof(b.pool) + unsafe.Sizeof(b.pool),
		"pktLen": unsafe.Offsetof(b.pktLen) + unsafe.Sizeof(b.pktLen), "off": unsafe.Offsetof(b.off) + unsafe.Sizeof(b.off),
		"dlen": unsafe.Offsetof(b.dlen) + unsafe.Sizeof(b.dlen), "segs": unsafe.Offsetof(b.segs) + unsafe.Sizeof(b.segs),
		"Flags": unsafe.Offsetof(b.Flags) + unsafe.Sizeof(b.Flags), "Port": unsafe.Offsetof(b.Port) + unsafe.Sizeof(b.Port),
	} {
		if end > cacheLine {
			t.Errorf("%s ends at byte %d, behind the first line", name, end)
		}
	}
}
