package vhost

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/ring"
	"vionet/virtio"
)

func TestIOTLBTranslates(t *testing.T) {
	iotlb := newIOTLB(func(iotlbMessage) {})
	defer iotlb.close()
	for _, e := range []translation{
		{first: 0x5000, last: 0x5fff, user: 0x15000, access: mayRead},
		{first: 0x1000, last: 0x1fff, user: 0x10000, access: mayRead | mayWrite},
		{first: 0x2000, last: 0x2fff, user: 0x11000, access: mayRead | mayWrite}, // goes on
		{first: 0x3000, last: 0x3fff, user: 0x12000, access: mayRead},            // for reading only
		{first: 0x4000, last: 0x4fff, user: 0x14000, access: mayRead},            // elsewhere
		{first: math.MaxUint64 - 4095, last: math.MaxUint64, user: 0x20000, access: mayWrite},
	} {
		if !iotlb.fits(e) || iotlb.knows(e) {
			t.Fatalf("%#x does not fit", e.first)
		}
		iotlb.add(e)
		if iotlb.fits(e) || !iotlb.knows(e) {
			t.Fatalf("%#x fits twice", e.first)
		}
	}
	for _, tt := range []struct {
		iova, n   uint64
		want      access
		user, run uint64
		err       error
	}{
		{0x1000, 1, mayRead, 0x10000, 1, nil},
		{0x1fff, 2, mayWrite, 0x10fff, 2, nil},
		{0x1800, 0x8000, mayRead, 0x10800, 0x2800, nil},
		{0x1800, 0x8000, mayRead | mayWrite, 0x10800, 0x1800, nil},
		{0x3000, 0x1000, mayRead, 0x12000, 0x1000, nil},
		{0x4000, 0x2000, mayRead, 0x14000, 0x2000, nil},
		{0x5fff, math.MaxUint64, mayRead, 0x15fff, 1, nil},
		{0x3000, 1, mayWrite, 0, 0, errForbidden},
		{0xfff, 2, mayRead, 0, 0, errMissed},
		{0x6000, 1, mayRead, 0, 0, errMissed},
		{math.MaxUint64, 1, mayWrite, 0x20fff, 1, nil},
		{math.MaxUint64, 2, mayWrite, 0x20fff, 1, nil},
	} {
		user, run, err := iotlb.translate(tt.iova, tt.n, tt.want)
		if user != tt.user || run != tt.run || !errors.Is(err, tt.err) {
			t.Errorf("translate(%#x, %#x, %d) = %#x, %#x, %v, want %#x, %#x, %v", tt.iova, tt.n, tt.want, user, run, err, tt.user, tt.run, tt.err)
		}
	}
	iotlb.remove(0x2fff, 0x3000)
	for iova, ok := range map[uint64]bool{0x1000: true, 0x2000: false, 0x3fff: false, 0x4000: true} {
		if _, _, err := iotlb.translate(iova, 1, mayRead); (err == nil) != ok {
			t.Errorf("after the removal %#x: %v", iova, err)
		}
	}
}

// The oldest translations make way for new ones, and there are never more than
// there may be.
func TestIOTLBIsBounded(t *testing.T) {
	d := newDirect(t, BackendConfig{IOMMU: true})
	d.share()
	d.start(virtio.AccessPlatform)
	for i := range uint64(3 * maxTranslations) {
		// Every other page, so that none goes on where another ends.
		d.must(d.translate(1<<40+i*8192, 4096, uint64(d.all.Addr()), mayRead))
		if n := len(d.s.iotlb.entries); n > maxTranslations {
			t.Fatalf("%d translations", n)
		}
	}
	last := uint64(1<<40 + (3*maxTranslations-1)*8192)
	for i := range uint64(maxTranslations) {
		if _, _, err := d.s.iotlb.lookUp(last-i*8192, 1, mayRead); err != nil {
			if i < maxTranslations/2 {
				t.Errorf("the newest but %d is gone", i)
			}
			break
		}
	}
}

// A page is asked for once, until there is an answer, or none for a while.
func TestIOTLBAsks(t *testing.T) {
	asked := make(chan uint64, 1000)
	iotlb := newIOTLB(func(m iotlbMessage) {
		if m.kind != iotlbMiss || m.size != 0 || m.access != mayWrite {
			t.Errorf("%+v", m)
		}
		asked <- m.iova
	})
	miss := func(iova uint64) {
		if _, _, err := iotlb.translate(iova, 1, mayWrite); !errors.Is(err, errMissed) {
			t.Errorf("%#x: %v", iova, err)
		}
	}
	for range 5 {
		miss(0x1fff)
		miss(0x1000)
		miss(0x2000)
	}
	iotlb.add(translation{first: 0x1000, last: 0x1fff, user: 1, access: mayWrite})
	iotlb.remove(0x1000, 0x1000)
	miss(0x1234)
	iotlb.mu.Lock()
	iotlb.asked[0x2000] = time.Now().Add(-2 * askAgain)
	iotlb.mu.Unlock()
	miss(0x2000)
	eventually(t, "four questions", func() bool { return len(asked) == 4 })
	for i := range uint64(4 * maxAsked) {
		miss(1<<20 + i*4096)
	}
	iotlb.close()
	close(asked)
	var got []uint64
	for page := range asked {
		got = append(got, page)
	}
	if want := []uint64{0x1000, 0x2000, 0x1000, 0x2000}; len(got) != maxAsked+2 || !slices.Equal(got[:4], want) {
		t.Errorf("%d questions %#x, want %d which begin with %#x", len(got), got[:min(len(got), 5)], maxAsked+2, want)
	}
}

// translate sends a translation.
func (d *direct) translate(iova, size, user uint64, a access) error {
	return d.say(message{request: iotlbMsg, iotlb: iotlbMessage{iova, size, user, a, iotlbUpdate}})
}

// reveal translates the guest's addresses of a zone to themselves.
func (d *direct) reveal(z mbuf.Zone, off, n int, a access) {
	d.tb.Helper()
	d.must(d.translate(d.guest(z)+uint64(off), uint64(n), uint64(z.Addr())+uint64(off), a))
}

func (d *direct) forget(z mbuf.Zone, off, n int) {
	d.tb.Helper()
	d.must(d.say(message{request: iotlbMsg, iotlb: iotlbMessage{iova: d.guest(z) + uint64(off), size: uint64(n), kind: iotlbInvalidate}}))
}

func TestIOTLBMessagesAreRefused(t *testing.T) {
	d := newDirect(t, BackendConfig{IOMMU: true})
	d.share()
	if err := d.translate(0x1000, 0x1000, 0x1000, mayRead); err == nil {
		t.Error("a translation was taken that was not negotiated")
	}
	d.start(virtio.AccessPlatform)
	for _, m := range []iotlbMessage{
		{0x1000, 0, 0x1000, mayRead, iotlbUpdate},
		{math.MaxUint64, 2, 0x1000, mayRead, iotlbUpdate},
		{0x1000, math.MaxUint64, 0x1000, mayRead, iotlbUpdate},
		{0x1000, 0x1000, math.MaxUint64 - 0xffe, mayRead, iotlbUpdate},
		{0x1000, 0x1000, 0x1000, 0, iotlbUpdate},
		{0x1000, 0x1000, 0x1000, 4, iotlbUpdate},
		{0x1000, 0x1000, 0x1000, mayRead, iotlbMiss},
		{0x1000, 0x1000, 0x1000, mayRead, 255},
		{0x1000, math.MaxUint64, 0, 0, iotlbInvalidate},
		{1, 0, 0, 0, iotlbInvalidate},
	} {
		if err := d.say(message{request: iotlbMsg, iotlb: m}); err == nil {
			t.Errorf("%+v was taken", m)
		}
	}
	if n := len(d.s.iotlb.entries); n != 0 {
		t.Errorf("%d translations", n)
	}
	d.must(d.translate(1<<63, 1<<63, 0, mayRead|mayWrite))
	d.must(d.translate(1<<63+0x1000, 0x1000, 0x9000, mayRead)) // contradicts it
	if n := len(d.s.iotlb.entries); n != 1 {
		t.Errorf("%d translations, want the last", n)
	}
	d.must(d.say(message{request: iotlbMsg, iotlb: iotlbMessage{kind: iotlbInvalidate}})) // 2^64 bytes
	if n := len(d.s.iotlb.entries); n != 0 {
		t.Errorf("%d translations are left", n)
	}
	if b := newTestBackend(t, BackendConfig{}); b.offer.Has(virtio.AccessPlatform) {
		t.Error("ACCESS_PLATFORM is offered unasked")
	}
}

// Rings start with the translations of their areas, wait while one is taken
// back, and go on where they were. Buffers may be in pieces, and come later.
func TestRingsBehindIOMMU(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			d := newDirect(t, BackendConfig{IOMMU: true})
			d.share()
			d.start(kind | virtio.AccessPlatform | virtio.VhostLogAll)
			for i := range d.areas {
				for page := range 3 {
					if d.running(i) {
						t.Errorf("ring %d runs with %d areas", i, page)
					}
					d.reveal(d.areas[i], page*4096, 4096, mayRead|mayWrite)
				}
				if !d.running(i) {
					t.Fatalf("ring %d does not run", i)
				}
			}
			// Two pages next to each other for the guest lie in the memory in
			// the other order.
			pages := d.alloc(3 * 4096)
			at := d.guest(pages)
			base := uint64(pages.Addr())
			frame := frameOf(1, 1000)
			d.rings[1].add(at+4096-100, uint32(12+len(frame)), 0)
			d.rings[1].publish()
			copy(pages.Bytes[4096+4096-100+12:][:88], frame)
			copy(pages.Bytes[:], frame[88:])
			for range 3 {
				if _, ok := d.dequeue(); ok {
					t.Fatal("a frame from nowhere")
				}
			}
			d.must(d.translate(at, 4096, base+4096, mayRead))
			if _, ok := d.dequeue(); ok {
				t.Fatal("half a frame from nowhere")
			}
			d.must(d.translate(at+4096, 4096, base, mayRead))
			if got, ok := d.dequeue(); !ok || !bytes.Equal(got, frame) {
				t.Fatalf("got %x, %v; %v", got, ok, d.b.TxQueue(0).Err())
			}

			// The same for a frame to the driver; what was written is noted
			// where it is.
			a, fd := newLog(t, (directGuest/4096+256)/8, 0)
			d.must(d.say(message{request: setLogBase, log: a}, fd))
			d.rings[0].add(at+4096-100, 2048, ring.DescWrite)
			d.rings[0].publish()
			d.must(d.translate(at, 4096, base+8192, mayWrite))
			d.forget(pages, 4096, 4096)
			if d.enqueue(frame) {
				t.Fatal("a frame was taken to nowhere")
			}
			d.must(d.translate(at+4096, 4096, base+4096, mayWrite))
			if !d.enqueue(frame) || d.rings[0].harvest(d.done[:]) != 1 || d.done[0].len != 1012 {
				t.Fatalf("not taken: %v", d.b.RxQueue(0).Err())
			}
			if got := append(bytes.Clone(pages.Bytes[12288-100+12:]), pages.Bytes[4096:][:912]...); !bytes.Equal(got, frame) {
				t.Errorf("the driver has got %x", got)
			}
			page := int(at / 4096)
			if got := dirtyPages(t, a, fd); !slices.Equal(got, []int{page + 1, page + 2}) {
				t.Errorf("pages %v, want %v", got, []int{page + 1, page + 2})
			}

			// The used area is noted where it is, too, whatever the front end
			// calls it.
			logged := d.addr(0, vringLog)
			logged.log = 0
			d.must(d.say(message{request: setVringAddr, addr: logged}))
			d.offer(0, pages, 4096, 2048, ring.DescWrite)
			want := []int{directGuest/4096 + 2, page + 1}
			if kind.Has(virtio.RingPacked) {
				want = append([]int{directGuest / 4096}, want...)
			}
			if !d.enqueue(frame) || d.rings[0].harvest(d.done[:]) != 1 {
				t.Fatalf("not taken: %v", d.b.RxQueue(0).Err())
			}
			if got := dirtyPages(t, a, fd); !slices.Equal(got, want) {
				t.Errorf("pages %v, want %v", got, want)
			}

			// A ring without its area.
			d.forget(d.areas[1], 4097, 1)
			if d.running(1) || !d.running(0) {
				t.Error("the wrong ring waits")
			}
			d.reveal(d.areas[1], 4096, 4096, mayRead|mayWrite)
			d.must(d.translate(at, 4096, base, mayRead))
			copy(pages.Bytes[12:], frame)
			d.rings[1].harvest(d.done[:])
			d.rings[1].add(at, uint32(12+len(frame)), 0)
			d.rings[1].publish()
			if got, ok := d.dequeue(); !ok || !bytes.Equal(got, frame) {
				t.Fatalf("got %x, %v; %v", got, ok, d.b.TxQueue(0).Err())
			}

			// What is forbidden, and what is not memory at all, breaks the ring.
			d.offer(0, pages, 0, 2048, ring.DescWrite)
			if d.enqueue(frame) || d.b.RxQueue(0).Err() == nil {
				t.Error("wrote to memory for reading")
			}
			d.must(d.translate(at, 4096, 4096, mayRead))
			d.offer(1, pages, 0, 100, 0)
			if _, ok := d.dequeue(); ok || d.b.TxQueue(0).Err() == nil {
				t.Error("read memory that there is not")
			}
		})
	}
}

// A frame over two buffers, one of which is not known yet: both are put back.
func TestMergedBuffersBehindIOMMU(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		d := newDirect(t, BackendConfig{IOMMU: true})
		d.share()
		d.start(kind | virtio.AccessPlatform | virtio.NetMrgRxbuf)
		d.reveal(d.areas[0], 0, len(d.areas[0].Bytes), mayRead|mayWrite)
		buffers := d.alloc(8192)
		d.reveal(buffers, 0, 4096, mayWrite)
		d.offer(0, buffers, 0, 600, ring.DescWrite)
		d.offer(0, buffers, 4096, 600, ring.DescWrite)
		frame := frameOf(1, 1000)
		for range 3 {
			if d.enqueue(frame) {
				t.Fatal("the frame was taken to nowhere")
			}
		}
		d.reveal(buffers, 4096, 4096, mayWrite)
		if !d.enqueue(frame) || d.rings[0].harvest(d.done[:]) != 2 || d.done[0].len != 600 || d.done[1].len != 412 {
			t.Errorf("%v: used %v; %v", kind, d.done[:2], d.b.RxQueue(0).Err())
		}
		if got := slices.Concat(buffers.Bytes[12:600], buffers.Bytes[4096:][:412]); !bytes.Equal(got, frame) {
			t.Errorf("%v: %x", kind, got)
		}
	}
}

// Translations of buffers and of ring areas come and go under traffic, while all
// is logged: every frame is whole, and every page that holds one is noted.
func TestTranslationsChangeUnderTraffic(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		d := newDirect(t, BackendConfig{IOMMU: true})
		d.share()
		buffer := d.alloc(8192)
		a, fd := newLog(t, (directGuest/4096+256)/8, 0)
		d.must(d.say(message{request: setLogBase, log: a}, fd))
		d.start(kind | virtio.AccessPlatform | virtio.VhostLogAll)
		zones := []mbuf.Zone{buffer.Slice(0, 4096), buffer.Slice(4096, 4096), d.areas[0].Slice(4096, 4096), d.areas[1].Slice(8192, 4096)}
		for _, z := range []mbuf.Zone{buffer, d.areas[0], d.areas[1]} {
			for off := 0; off < len(z.Bytes); off += 4096 {
				d.reveal(z, off, 4096, mayRead|mayWrite)
			}
		}
		stop, changed := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for ; ; n++ {
				select {
				case <-stop:
					changed <- n
					return
				default:
				}
				z := zones[n%len(zones)]
				d.forget(z, 0, 4096)
				d.reveal(z, 0, 4096, mayRead|mayWrite)
			}
		}()
		for i := range 300 {
			frame := frameOf(i, 1000)
			d.offer(0, buffer, 4096-500, 2048, ring.DescWrite)
			eventually(t, "room", func() bool { return d.enqueue(frame) })
			if d.rings[0].harvest(d.done[:]) != 1 || !bytes.Equal(buffer.Bytes[4096-500+12:][:1000], frame) {
				t.Fatalf("frame %d to the driver is not whole", i)
			}
			copy(buffer.Bytes[4096-700+12:], frame)
			d.offer(1, buffer, 4096-700, 1012, 0)
			eventually(t, "a frame", func() bool {
				got, ok := d.dequeue()
				if ok && !bytes.Equal(got, frame) {
					t.Fatalf("frame %d of the driver came as %x", i, got)
				}
				return ok
			})
			d.rings[1].harvest(d.done[:])
			page := int(d.guest(buffer) / 4096)
			if got := dirtyPages(t, a, fd); !slices.Equal(got, []int{page, page + 1}) {
				t.Fatalf("frame %d: pages %v, want %v", i, got, []int{page, page + 1})
			}
		}
		close(stop)
		if n := <-changed; n < 10 {
			t.Errorf("%d changes", n)
		}
	}
}

// What is missing is asked for over the back end's own socket.
func TestMissesAreSent(t *testing.T) {
	d := newDirect(t, BackendConfig{IOMMU: true, Timeout: 5 * time.Second})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	d.must(err)
	d.s.conn = &conn{timeout: 5 * time.Second}
	d.must(d.say(message{request: setBackendReqFD}, pair[1]))
	unix.Close(pair[1])
	sock, err := adoptSocket(pair[0])
	d.must(err)
	defer sock.Close()
	c := &conn{sock: sock, timeout: 5 * time.Second}
	d.share()
	d.start(virtio.AccessPlatform)
	for _, z := range d.areas {
		h, body, _, err := c.receiveRaw()
		if err != nil || uint32(h.request) != uint32(backendIOTLB) || len(body) != iotlbSize {
			t.Fatalf("%+v, %x, %v", h, body, err)
		}
		if got, want := decodeIOTLB(body), (iotlbMessage{iova: d.guest(z), access: mayRead, kind: iotlbMiss}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// A guest behind an IOMMU is not to migrate: it is not offered a log.
func TestNoMigrationBehindIOMMU(t *testing.T) {
	for _, iommu := range []bool{false, true} {
		b, err := newBackend(BackendConfig{IOMMU: iommu})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.protocol().has(protocolLogShmFD); got == iommu {
			t.Errorf("IOMMU %v: a log of dirty pages offered: %v", iommu, got)
		}
	}
}
