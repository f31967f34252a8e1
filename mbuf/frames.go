package mbuf

import (
	"fmt"
	"slices"
)

// NewFramePool makes a pool of buffers over memory that somebody else divides:
// frames of frameSize bytes, one behind the other in area, which devices reach.
// The pool is empty at first. Its buffers, frames[i] that of the frame with
// number and Token i, are the caller's, who frees those that the pool may give
// away; they stay where they are. Such a pool does not grow, and its memory is
// not the pool's to free. Several may lie over the same area, when the caller
// sees to it that a frame is in use by one of them at a time.
func NewFramePool(m *Memory, name string, area []byte, frameSize int) (p *Pool, frames []Buf, err error) {
	if frameSize <= Headroom || frameSize > maxBufSize || len(area) == 0 || len(area)%frameSize != 0 {
		return nil, nil, fmt.Errorf("mbuf: pool %s: frames of %d bytes in %d: must be more than the headroom of %d, at most %d, and divide the area", name, frameSize, len(area), Headroom, maxBufSize)
	}
	count := len(area) / frameSize
	p = &Pool{name: name, size: count, total: count, room: frameSize, mem: m, fixed: true, free: make([]*Buf, 0, count)}
	frames = newBufs(count)
	for i, frame := range slices.Collect(slices.Chunk(area, frameSize)) {
		region, _, err := m.locate(frame)
		if err != nil {
			return nil, nil, fmt.Errorf("mbuf: pool %s: frame %d: %w", name, i, err)
		}
		b := &frames[i]
		b.mem, b.iova = frame, region.IOVA+uint64(addrOf(frame)-region.Addr())
		b.pool, b.token = p, uint32(i)
		b.Reset()
	}
	return p, frames, nil
}
