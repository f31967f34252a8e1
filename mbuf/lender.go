package mbuf

// NoIOVA is the device address of a buffer that no device can reach: its memory
// is somebody else's and not mapped for DMA.
const NoIOVA = ^uint64(0)

// Lender makes packets of memory that is not the program's own, such as a
// guest's, without a copy. Freed like any other packet, they come back to it.
//
// One goroutine at a time calls Lend and TakeBack, and any calls Out while nobody
// calls these; packets may be freed by any at any time. Lent memory must stay
// mapped until all of it is back.
type Lender struct {
	pool  *Pool // where lent buffers are freed to
	store []Buf
	idle  []*Buf
	back  []*Buf // scratch
}

// NewLender makes a lender of up to count buffers at a time.
func NewLender(count int) *Lender {
	l := &Lender{
		pool:  &Pool{name: "lent", size: count, total: count, free: make([]*Buf, 0, count)},
		store: newBufs(count),
		idle:  make([]*Buf, count),
		back:  make([]*Buf, count),
	}
	for i := range l.store {
		l.store[i].pool, l.store[i].iova = l.pool, NoIOVA
		l.idle[i] = &l.store[i]
	}
	return l
}

// Lend makes a packet of one segment of data, at most 65535 bytes, with room on
// neither side. It is nil when all buffers are out. TakeBack will give the token
// when the packet was freed.
func (l *Lender) Lend(data []byte, token uint32) *Buf {
	if len(l.idle) == 0 || len(data) > maxBufSize {
		return nil
	}
	b := l.idle[len(l.idle)-1]
	l.idle = l.idle[:len(l.idle)-1]
	b.mem, b.token = data, token
	b.SetReceived(0, len(data))
	return b
}

// TakeBack gives the tokens of lent buffers that were freed, as many as tokens
// holds, and returns how many there are.
func (l *Lender) TakeBack(tokens []uint32) int {
	if len(l.idle) == len(l.store) {
		return 0
	}
	n := l.pool.take(l.back[:min(len(tokens), len(l.back))])
	for i, b := range l.back[:n] {
		tokens[i] = b.token
		b.mem = nil
	}
	l.idle = append(l.idle, l.back[:n]...)
	return n
}

// Out is the number of lent buffers that were not freed yet.
func (l *Lender) Out() int { return len(l.store) - len(l.idle) - l.pool.Free() }

// Lent reports whether a part of the packet is memory of a Lender: no device can
// reach it, and whoever writes to it writes to somebody else's memory.
func (b *Buf) Lent() bool {
	for ; b != nil; b = b.next {
		if b.iova == NoIOVA {
			return true
		}
	}
	return false
}
