package mbuf

import (
	"fmt"
	"slices"
)

// Zone is a piece of a region handed out by Alloc.
type Zone struct {
	Bytes []byte
	IOVA  uint64
}

// Slice is the part of z that starts at off and is n bytes long.
func (z Zone) Slice(off, n int) Zone {
	return Zone{Bytes: z.Bytes[off : off+n : off+n], IOVA: z.IOVA + uint64(off)}
}

// area is a region and what of it is free.
type area struct {
	Region
	free   []span // in order; no two of them touch, so there are few
	virgin int    // bytes from here on were never handed out, and are zero
}

// span is a range of bytes in a region, the end not included.
type span struct{ start, end int }

func newArea(r Region) *area {
	return &area{Region: r, free: []span{{0, len(r.Bytes)}}}
}

// fit finds the span that size bytes, aligned, leave the least of, and gives
// its number and what is left of it. The number is -1 when there is none.
func (a *area) fit(size, align int) (number, left int) {
	number = -1
	if align > a.PageSize {
		return number, 0 // the region itself is aligned to pages only
	}
	for i, s := range a.free {
		rest := s.end - roundUp(s.start, align) - size
		if rest >= 0 && (number < 0 || s.end-s.start-size < left) {
			number, left = i, s.end-s.start-size
		}
	}
	return number, left
}

// take hands size zeroed bytes of a span out.
func (a *area) take(number, size, align int) Zone {
	s := a.free[number]
	start := roundUp(s.start, align)
	end := start + size
	var rest []span
	if s.start < start {
		rest = append(rest, span{s.start, start})
	}
	if end < s.end {
		rest = append(rest, span{end, s.end})
	}
	a.free = slices.Replace(a.free, number, number+1, rest...)
	clear(a.Bytes[start:min(max(start, a.virgin), end)])
	a.virgin = max(a.virgin, end)
	return Zone{Bytes: a.Bytes[start:end:end], IOVA: a.IOVA + uint64(start)}
}

// give takes a span back and joins it with its neighbours. A span of which a
// part is free already is nobody's to give back, and stays out.
func (a *area) give(s span) {
	i, _ := slices.BinarySearchFunc(a.free, s, func(x, y span) int { return x.start - y.start })
	if i > 0 && a.free[i-1].end > s.start || i < len(a.free) && a.free[i].start < s.end {
		return
	}
	a.free = slices.Insert(a.free, i, s)
	if i+1 < len(a.free) && a.free[i+1].start == s.end {
		a.free[i].end = a.free[i+1].end
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].end == s.start {
		a.free[i-1].end = a.free[i].end
		a.free = slices.Delete(a.free, i, i+1)
	}
}

// Alloc hands out size zeroed bytes whose address is a multiple of align, a
// power of two up to the page size. The error wraps ErrNoMemory when no piece
// that large is left.
func (m *Memory) Alloc(size, align int) (Zone, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if size <= 0 || align <= 0 || align&(align-1) != 0 || align > m.largestPage() {
		return Zone{}, fmt.Errorf("mbuf: allocation of %d bytes aligned to %d: sizes must be positive, alignments powers of two up to a page", size, align)
	}
	if z, ok := m.alloc(size, align); ok {
		return z, nil
	}
	total := 0
	for _, a := range m.areas {
		total += len(a.Bytes)
	}
	return Zone{}, fmt.Errorf("%w: %d bytes wanted, and the largest free piece has %d (of %d in all): raise -m or lower --total-num-mbufs", ErrNoMemory, size, m.largestSpan(), total)
}

// alloc takes from the span, of all regions, that fits best.
func (m *Memory) alloc(size, align int) (Zone, bool) {
	var best *area
	var number, left int
	for _, a := range m.areas {
		if n, l := a.fit(size, align); n >= 0 && (best == nil || l < left) {
			best, number, left = a, n, l
		}
	}
	if best == nil {
		return Zone{}, false
	}
	return best.take(number, size, align), true
}

// allocUnits is Alloc for up to count things of unit bytes each, a multiple
// of a cache line: as many as fit in one piece, and at least one.
func (m *Memory) allocUnits(unit, count int) (Zone, error) {
	m.mu.Lock()
	fit := m.largestSpan() / unit
	m.mu.Unlock()
	// Other goroutines may be quicker; the error is true then.
	return m.Alloc(unit*min(count, max(fit, 1)), cacheLine)
}

// Free takes a zone back. The caller, and every device, must be done with it.
// What is not handed out, or went with a closed Memory, is left alone.
func (m *Memory) Free(z Zone) {
	size := cap(z.Bytes) // a zone that was cut shorter comes back whole
	if size == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.areas {
		start := int(z.Addr() - a.Addr())
		if z.Addr() >= a.Addr() && start+size <= len(a.Bytes) {
			a.give(span{start, start + size})
			return
		}
	}
}

// largestPage is the largest size of pages there is.
func (m *Memory) largestPage() int {
	size := 0
	for _, s := range m.segments {
		size = max(size, s.pageSize)
	}
	return size
}

// largestSpan is the size in bytes of the largest free piece.
func (m *Memory) largestSpan() int {
	size := 0
	for _, a := range m.areas {
		for _, s := range a.free {
			size = max(size, s.end-s.start)
		}
	}
	return size
}
