package vhost

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/ring"
	"vionet/virtio"
)

// newLog makes a log of size bytes at an offset of its file.
func newLog(tb testing.TB, size, offset int) (a logArea, fd int) {
	tb.Helper()
	return logArea{uint64(size), uint64(offset)}, memfd(tb, int64(size+offset))
}

// dirtyPages lists the pages that a log says were written, and clears it.
func dirtyPages(tb testing.TB, a logArea, fd int) (pages []int) {
	tb.Helper()
	b := make([]byte, a.size)
	if _, err := unix.Pread(fd, b, int64(a.offset)); err != nil {
		tb.Fatal(err)
	}
	for i := range 8 * len(b) {
		if b[i/8]>>(i%8)&1 != 0 {
			pages = append(pages, i)
		}
	}
	clear(b)
	if _, err := unix.Pwrite(fd, b, int64(a.offset)); err != nil {
		tb.Fatal(err)
	}
	return pages
}

func TestDirtyLogMark(t *testing.T) {
	a, fd := newLog(t, 8, 4)
	l, err := mapDirtyLog(a, fd)
	if err != nil {
		t.Fatal(err)
	}
	defer l.unmap()
	var all []int
	for i := range 64 {
		all = append(all, i)
	}
	for _, tt := range []struct {
		addr uint64
		n    int
		want []int
	}{
		{0, 1, []int{0}}, {4095, 1, []int{0}}, {4095, 2, []int{0, 1}}, {4096, 4096, []int{1}}, {4096, 4097, []int{1, 2}},
		{31 * 4096, 2 * 4096, []int{31, 32}}, {33*4096 + 7, 1, []int{33}}, {63 * 4096, 4096, []int{63}},
		{63 * 4096, 1 << 20, []int{63}}, {64 * 4096, 1, nil}, {0, 1 << 40, all}, {0, 0, nil}, {0, -1, nil},
		{math.MaxUint64, 1, nil}, {math.MaxUint64, math.MaxInt, nil}, {math.MaxUint64 - 4096, 8192, nil},
	} {
		l.mark(tt.addr, tt.n)
		if got := dirtyPages(t, a, fd); !slices.Equal(got, tt.want) {
			t.Errorf("mark(%#x, %d): pages %v, want %v", tt.addr, tt.n, got, tt.want)
		}
	}
	var none *dirtyLog
	none.mark(0, 1)
	none.unmap()
}

func TestDirtyLogIsRefused(t *testing.T) {
	d := newDirect(t, BackendConfig{})
	fd := memfd(t, 8192)
	mappings := countMappings(t)
	for _, a := range []logArea{
		{0, 0}, {6, 0}, {8, 2}, {8193, 0}, {8, 8188}, {8, 8192}, {math.MaxUint64 - 3, 8}, {8, math.MaxUint64 - 3}, {math.MaxUint64 - 7, math.MaxUint64 - 7},
	} {
		if err := d.say(message{request: setLogBase, log: a}, fd); err == nil {
			t.Errorf("a log of %d bytes at offset %d of a file of 8192 was taken", a.size, a.offset)
		}
	}
	for range 3 {
		d.must(d.say(message{request: setLogBase, log: logArea{8, 8184}}, fd))
	}
	if err := d.say(message{request: setLogBase, log: logArea{8, 0}}); err == nil {
		t.Error("a log without a descriptor was taken")
	}
	d.must(d.say(message{request: setLogFD}, fd))
	if n := countMappings(t); n != mappings+1 {
		t.Errorf("%d mappings more, want that of the log", n-mappings)
	}
	d.s.reset()
	if n := countMappings(t); n != mappings {
		t.Errorf("%d mappings more after a reset", n-mappings)
	}
}

// Only pages that were written are noted, while that is asked for, wherever the
// log is. Ring 0 is in pages 0 to 3, ring 1 in pages 4 to 7 of the memory; the
// used area is the third of a ring.
func TestDirtyLogOfRings(t *testing.T) {
	const first = directGuest / 4096
	for _, kind := range []virtio.Features{0, virtio.EventIdx, virtio.RingPacked} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			d := newDirect(t, BackendConfig{})
			d.share()
			d.start(kind)
			buffer := d.alloc(8192)
			at := int(d.guest(buffer) / 4096)
			used := [2][]int{{first + 2}, {first + 6}}
			if kind.Has(virtio.RingPacked) {
				used = [2][]int{{first, first + 2}, {first + 4, first + 6}}
			}
			features := func(f virtio.Features) error {
				return d.say(message{request: setFeatures, u64: uint64(f | kind | virtio.Version1 | virtio.VhostUserProtocolFeatures)})
			}
			var a logArea
			var fd int
			newBase := func() {
				a, fd = newLog(t, (first+256)/8, 0)
				d.must(d.say(message{request: setLogBase, log: a}, fd))
			}
			expect := func(what string, want ...int) {
				t.Helper()
				if got := dirtyPages(t, a, fd); !slices.Equal(got, want) {
					t.Errorf("%s: pages %v, want %v", what, got, want)
				}
			}
			// 4090 bytes into two pages: a header of 12 bytes is all of the first.
			toDriver := func(size int) {
				t.Helper()
				d.offer(0, buffer, 4096-12, 2048, ring.DescWrite)
				if !d.enqueue(frameOf(1, size)) {
					t.Fatal("no room")
				}
				if n := d.rings[0].harvest(d.done[:]); n != 1 || !bytes.Equal(buffer.Bytes[4096:][:size], frameOf(1, size)) {
					t.Fatalf("%d buffers came back", n)
				}
			}
			fromDriver := func() {
				t.Helper()
				d.offer(1, buffer, 0, 100, 0)
				if _, ok := d.dequeue(); !ok || d.rings[1].harvest(d.done[:]) != 1 {
					t.Fatal("no frame")
				}
			}
			newBase()
			toDriver(100)
			fromDriver()
			expect("not asked for")
			d.must(features(virtio.VhostLogAll))
			toDriver(100)
			fromDriver()
			expect("buffers only", at, at+1)
			for i := range uint32(2) {
				d.must(d.say(message{request: setVringAddr, addr: d.addr(i, vringLog)}))
			}
			toDriver(100)
			expect("to the driver", append(used[0], at, at+1)...)
			fromDriver()
			expect("from the driver", used[1]...)
			before, old := a, fd
			newBase()
			toDriver(100)
			expect("in another log", append(used[0], at, at+1)...)
			a, fd = before, old
			expect("in the log before")
			if err := features(virtio.VhostLogAll | virtio.NetMrgRxbuf); err == nil {
				t.Error("another feature changed while the rings run")
			}
			elsewhere := d.addr(0, vringLog)
			elsewhere.used += 4096
			if err := d.say(message{request: setVringAddr, addr: elsewhere}); err == nil {
				t.Error("a ring moved while it runs")
			}
			newBase()
			d.must(features(0))
			toDriver(100)
			fromDriver()
			expect("not asked for any more")
			if !d.running(0) || !d.running(1) {
				t.Error("a ring has stopped")
			}
		})
	}
}

// A log that ends before the guest's memory does.
func TestDirtyLogTooSmall(t *testing.T) {
	d := newDirect(t, BackendConfig{})
	a, fd := newLog(t, 4, 0)
	d.must(d.say(message{request: setLogBase, log: a}, fd))
	d.share()
	d.start(virtio.VhostLogAll)
	addr := d.addr(0, vringLog)
	addr.log = math.MaxUint64 - 1
	d.must(d.say(message{request: setVringAddr, addr: addr}))
	d.offer(0, d.alloc(4096), 0, 4096, ring.DescWrite)
	if !d.enqueue(frameOf(1, 100)) {
		t.Error("no room")
	}
	if got := dirtyPages(t, a, fd); got != nil {
		t.Errorf("pages %v", got)
	}
}

// The acknowledgement of a log comes unasked for.
func TestLogIsAnswered(t *testing.T) {
	c := rawPeer(t, newTestBackend(t, BackendConfig{}))
	a, fd := newLog(t, 4096, 0)
	if err := c.send(message{request: setLogBase, log: a}, fd); err != nil {
		t.Fatal(err)
	}
	h, body, _, err := c.receiveRaw()
	if err != nil || h.request != setLogBase || h.flags != flagVersion|flagReply || binary.LittleEndian.Uint64(body) != 0 {
		t.Errorf("%+v, %x, %v", h, body, err)
	}
}
