package vhost

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// Buffers that a burst has left over serve the next one in their order, are known
// to be there, and are the front end's again when the ring stops.
func TestBuffersAreTakenAhead(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		for offered, bursts := range map[int][]int{3: {2, 1}, 4: {2, 1}, 6: {2, 1}, 40: {4, 3, 3}} {
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
				for _, burst := range bursts {
					if n := enqueue(burst); n != burst {
						t.Fatalf("%d frames of %d went", n, burst)
					}
				}
				if pending := q.Pending() > 0; pending != (offered > sent) {
					t.Errorf("buffers are pending: %v", pending)
				}
				base, want := g.stopRing(0), uint32(sent)
				if kind.Has(virtio.RingPacked) {
					want |= want<<16 | ring.FreshPacked
				}
				if base != want {
					t.Errorf("base %#x of the stopped ring, want %#x", base, want)
				}
				g.describe(0, base)
				g.kick()
				if !alive(g.conn) {
					t.Fatal("the ring cannot go on")
				}
				left := offered - sent
				if n := enqueue(64); n != left {
					t.Errorf("%d frames went after the stop, want %d", n, left)
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

// Buffers that were taken ahead before the guest began to move are noted like all
// others when they are written to.
func TestBuffersTakenAheadAreNoted(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			r := newPortRig(t, PortConfig{Packed: true}, port.Config{})
			g := newRawGuest(t, rawPeer(t, r.port.(*vhostPort).backend), bare|kind)
			g.share()
			g.start()
			for i := range 4 {
				g.offer(rawBuffers+i*dirtyPage, 2048)
			}
			r.sendFrames(t, 0, 2)
			const first = rawDeviceBase / dirtyPage
			a, fd := newLog(t, (first+rawMemory/dirtyPage)/8, 0)
			g.tell(message{request: setLogBase, log: a}, fd)
			if _, _, err := g.conn.receive(); err != nil {
				t.Fatal(err)
			}
			g.tell(message{request: setFeatures, u64: uint64(g.features | virtio.VhostLogAll)})
			if !alive(g.conn) {
				t.Fatal("the back end has ended the connection")
			}
			r.sendFrames(t, 2, 2)
			const buffers = first + rawBuffers/dirtyPage
			if got, want := dirtyPages(t, a, fd), []int{buffers + 2, buffers + 3}; !slices.Equal(got, want) {
				t.Errorf("pages %v, want %v", got, want)
			}
		})
	}
}

// sendFrames sends n frames, from number first on, to the guest in one burst.
func (r *portRig) sendFrames(t *testing.T, first, n int) {
	t.Helper()
	pkts := make([]*mbuf.Buf, n)
	for i := range pkts {
		pkts[i] = packetOf(t, r.pool, frameOf(first+i, 200), 2048)
	}
	if sent := r.port.TxQueue(0).Burst(pkts); sent != n {
		t.Fatalf("%d frames of %d went", sent, n)
	}
}

// A port fills chains of two pieces where it filled buffers of one before.
func TestPortFillsChainsOfPieces(t *testing.T) {
	r := newPortRig(t, PortConfig{}, port.Config{})
	g := newRawGuest(t, rawPeer(t, r.port.(*vhostPort).backend), bare)
	g.share()
	g.start()
	const bufs, first = 4, 60 // bytes of a first piece
	for i := range bufs {
		g.offer(rawBuffers+i*2048, 2048)
	}
	r.sendFrames(t, 0, bufs)
	chains := rawBuffers + 0x8000
	for i := range bufs {
		at := chains + i*4096 // the table, and the pieces behind it
		for j, n := range []uint32{first, 2000} {
			d := g.mem[at+j*ring.DescSize:]
			binary.LittleEndian.PutUint64(d, rawDeviceBase+uint64(at+1024*(j+1)))
			binary.LittleEndian.PutUint32(d[8:], n)
			binary.LittleEndian.PutUint16(d[12:], ring.DescWrite|ring.DescNext*uint16(1-j))
			binary.LittleEndian.PutUint16(d[14:], 1)
		}
		g.rings[0].add(rawDeviceBase+uint64(at), 2*ring.DescSize, ring.DescIndirect)
	}
	g.rings[0].publish()
	r.sendFrames(t, bufs, bufs)
	header := virtio.HeaderSize(g.features)
	for i := range bufs {
		if frame, ok := g.receive(); !ok || !bytes.Equal(frame, frameOf(i, 200)) {
			t.Errorf("frame %d arrived as %x", i, frame)
		}
	}
	for i := range bufs {
		at := chains + i*4096
		got := append(bytes.Clone(g.mem[at+1024+header:][:first-header]), g.mem[at+2048:][:200-(first-header)]...)
		if want := frameOf(bufs+i, 200); !bytes.Equal(got, want) {
			t.Errorf("frame %d lies in two pieces as %x, want %x", bufs+i, got, want)
		}
	}
}

// A frame in a buffer for the device to write to breaks a rule, on a port, too.
func TestPortReadsNoBufferToWrite(t *testing.T) {
	r := newPortRig(t, PortConfig{}, port.Config{})
	g := newRawGuest(t, rawPeer(t, r.port.(*vhostPort).backend), bare)
	g.share()
	g.start()
	g.rings[1].add(rawDeviceBase+rawBuffers, 100, ring.DescWrite)
	g.rings[1].publish()
	pkts := make([]*mbuf.Buf, 4)
	if n := r.port.RxQueue(0).Burst(pkts); n != 0 {
		t.Errorf("%d frames were received", n)
		pkts[0].Free()
	}
	if r.port.RxQueue(0).Err() == nil {
		t.Error("no rule was broken")
	}
}
