package capture

import (
	"time"

	"vionet/mbuf"
)

// Sizes of what waits to be written.
const (
	blocks       = 64
	blockBytes   = MaxSnapLen
	blockPackets = 512
)

// block holds copies of packets of one burst, on their way to the file.
type block struct {
	from    Source
	at      time.Time
	data    []byte
	packets []copied
	before  *block // of the same burst, with packets in front of these; nil: none
}

// copied is a packet in a block: its bytes end at end, it was length bytes long, and
// it stood at that place of the burst.
type copied struct{ end, length, place int }

func newBlock() *block {
	return &block{data: make([]byte, 0, blockBytes), packets: make([]copied, 0, blockPackets)}
}

func (b *block) reset(from Source, at time.Time) {
	b.from, b.at, b.before = from, at, nil
	b.data, b.packets = b.data[:0], b.packets[:0]
}

// add copies snap bytes of the packet at most, and reports whether there was room.
func (b *block) add(p *mbuf.Buf, place, snap int) bool {
	keep := min(p.PacketLen(), snap)
	if len(b.packets) == cap(b.packets) || len(b.data)+keep > cap(b.data) {
		return false
	}
	for seg := p; seg != nil && keep > 0; seg = seg.Next() {
		piece := seg.Bytes()
		piece = piece[:min(len(piece), keep)]
		b.data = append(b.data, piece...)
		keep -= len(piece)
	}
	b.packets = append(b.packets, copied{len(b.data), p.PacketLen(), place})
	return true
}

// cut takes the packets out that stood at the place end of the burst or behind it.
func (b *block) cut(end int) {
	n := len(b.packets)
	for n > 0 && b.packets[n-1].place >= end {
		n--
	}
	b.packets = b.packets[:n] // their bytes do no harm
}

// write appends what the block holds to a file.
func (b *block) write(w *Writer) error {
	start := 0
	for _, p := range b.packets {
		if err := w.Write(b.from, b.at, b.data[start:p.end], p.length); err != nil {
			return err
		}
		start = p.end
	}
	return nil
}
