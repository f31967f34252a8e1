package vhost

import (
	"bytes"
	"fmt"
	"testing"

	"vionet/virtio"
)

// Buffers that a burst has left over serve the next one in their order, are known
// to be there, and are the front end's again when the ring stops.
func TestBuffersAreTakenAhead(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		for _, offered := range []int{3, 6, 40} {
			t.Run(fmt.Sprintf("%v, %d buffers", kind, offered), func(t *testing.T) {
				b := newTestBackend(t, BackendConfig{Packed: true, Log: logTo(t)})
				g := newRawGuest(t, rawPeer(t, b), bare|kind)
				g.share()
				g.start()
				for i := range offered {
					g.offer(rawBuffers+i*2048, 2048)
				}
				q := b.RxQueue(virtio.RxQueue(0))
				sent := 0
				enqueue := func(n int) (took int) {
					frames := make([]Frame, n)
					for i := range frames {
						frames[i].Data = frameOf(sent+i, 100)
					}
					took = q.Enqueue(frames)
					sent += took
					return took
				}
				for _, burst := range []int{2, 1} {
					if n := enqueue(burst); n != burst {
						t.Fatalf("%d frames of %d went", n, burst)
					}
				}
				if pending := q.Pending() > 0; pending != (offered > 3) {
					t.Errorf("buffers are pending: %v", pending)
				}
				base := g.stopRing(0)
				if want := map[bool]uint32{false: 3, true: 3<<16 | 3 | 1<<15 | 1<<31}[kind != 0]; base != want {
					t.Errorf("base %#x of the stopped ring, want %#x", base, want)
				}
				g.describe(0, base)
				g.kick()
				if !alive(g.conn) {
					t.Fatal("the ring cannot go on")
				}
				if n := enqueue(64); n != offered-3 {
					t.Errorf("%d frames went after the stop, want %d", n, offered-3)
				}
				for i := range offered {
					if frame, ok := g.receive(); !ok || !bytes.Equal(frame, frameOf(i, 100)) {
						t.Fatalf("frame %d arrived as %x", i, frame)
					}
				}
			})
		}
	}
}
