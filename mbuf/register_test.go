package mbuf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// anonymousPages maps memory as an application would.
func anonymousPages(t *testing.T, pages int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, pages*unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

// memoryFileOf makes a memory file and maps it.
func memoryFileOf(t *testing.T, pages int) Area {
	t.Helper()
	size := pages * unix.Getpagesize()
	fd, err := memoryFile(size, unix.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b); f.Close() })
	return Area{Bytes: b, File: f}
}

// Registered memory is told to whoever listens, is a file with the same
// contents at the same place, and goes again; what it held stays.
func TestRegister(t *testing.T) {
	for _, mode := range []MemoryConfig{
		{Size: 1 << 20, NoHuge: true},
		{Size: 1 << 20, NoHuge: true, IOVA: IOVARanges, Ranges: []AddrRange{{1 << 32, 1<<40 - 1}}},
	} {
		m, err := NewMemory(mode)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var events []string
		m.OnGrow(
			func(added []Region) error { events = append(events, fmt.Sprint("added ", len(added))); return nil },
			func(gone []Region) error { events = append(events, fmt.Sprint("gone ", len(gone))); return nil })
		anonymous, file := anonymousPages(t, 4), memoryFileOf(t, 4)
		for i := range anonymous {
			anonymous[i], file.Bytes[i] = byte(i/7), byte(i/9)
		}
		want := bytes.Clone(anonymous)
		a, err := m.Register(Area{Bytes: anonymous})
		if err != nil {
			t.Fatal(err)
		}
		part := Area{Bytes: file.Bytes[unix.Getpagesize():], File: file.File, Offset: int64(unix.Getpagesize())}
		b, err := m.Register(part)
		if err != nil {
			t.Fatal(err)
		}
		regions := m.Regions()
		if len(regions) != 3 || !bytes.Equal(anonymous, want) {
			t.Fatalf("%d regions, contents kept: %v", len(regions), bytes.Equal(anonymous, want))
		}
		for i, r := range regions[1:] {
			if r.IOVA < regions[0].end() && regions[0].IOVA < r.end() {
				t.Errorf("region %d has addresses of the first", i+1)
			}
			read := make([]byte, len(r.Bytes))
			r.Bytes[5] = 0x77 // seen through the file
			if _, err := unix.Pread(r.FD, read, r.Offset); err != nil || !bytes.Equal(read, r.Bytes) {
				t.Errorf("region %d is not its file: %v", i+1, err)
			}
		}
		if err := errors.Join(a.Unregister(t.Context()), b.Unregister(t.Context()), b.Unregister(t.Context())); err != nil {
			t.Error(err)
		}
		if got := strings.Join(events, ", "); got != "added 1, added 1, gone 1, gone 1" {
			t.Errorf("told: %s", got)
		}
		if len(m.Regions()) != 1 || anonymous[5] != 0x77 || !bytes.Equal(anonymous[6:], want[6:]) {
			t.Errorf("%d regions are left, or the contents are not", len(m.Regions()))
		}
		if r, err := m.Register(Area{Bytes: anonymous}); err != nil {
			t.Errorf("registered again: %v", err)
		} else if z, err := m.Alloc(900<<10, 64); err != nil || z.Addr() >= addrOf(anonymous) && z.Addr() < r.regions[0].Addr()+4 {
			t.Errorf("a zone at %#x, %v", z.Addr(), err)
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	m, err := NewMemory(MemoryConfig{Size: 1 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	page := unix.Getpagesize()
	area, file := anonymousPages(t, 4), memoryFileOf(t, 2)
	if _, err := m.Register(Area{Bytes: area[page : 2*page]}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		area Area
		says string
	}{
		{"nothing", Area{}, "empty"},
		{"not a whole page", Area{Bytes: area[:100]}, "multiples of the page"},
		{"not aligned", Area{Bytes: area[64 : page+64]}, "multiples of the page"},
		{"offset not aligned", Area{Bytes: file.Bytes, File: file.File, Offset: 8}, "multiples of the page"},
		{"overlapping", Area{Bytes: area}, "register each page once"},
		{"of the Go heap", Area{Bytes: make([]byte, heapObject)[:page]}, "take memory from unix.Mmap"},
		{"the memory's own", Area{Bytes: m.Regions()[0].Bytes[:page]}, "register each page once"},
		{"beyond the file", Area{Bytes: file.Bytes, File: file.File, Offset: int64(page)}, "ends before the area"},
	} {
		if _, err := m.Register(tt.area); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
	if n := len(m.Regions()); n != 2 {
		t.Errorf("%d regions, want 2", n)
	}
	physical := Area{Bytes: area[2*page:]}
	if _, err := physical.check(IOVAPhysical); err == nil || !strings.Contains(err.Error(), "MFD_HUGETLB") {
		t.Errorf("plain pages with physical addresses: %v", err)
	}
	stop := m.OnGrow(func([]Region) error { return errors.New("not that") })
	if _, err := m.Register(physical); err == nil || !strings.Contains(err.Error(), "not that") {
		t.Errorf("a device's refusal: %v", err)
	}
	stop()
	if _, err := m.Register(physical); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if area[2*page] = 1; area[2*page] != 1 { // faults if it were gone
		t.Error("the area went with the memory")
	}
	if _, err := m.Register(Area{Bytes: area[:page]}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("registered in closed memory: %v", err)
	}
}

// External memory is given back once, after the last packet of it was freed in
// whatever way, and the buffers are what they were.
func TestExternal(t *testing.T) {
	p := newTestPool(t, 64, DefaultSize)
	m := p.Memory()
	r, err := m.Register(Area{Bytes: anonymousPages(t, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewExternal(make([]byte, 10), nil); err == nil || !strings.Contains(err.Error(), "Register") {
		t.Errorf("memory that nobody registered: %v", err)
	}
	if _, err := m.NewExternal(nil, nil); err == nil {
		t.Error("no bytes at all")
	}
	freed := 0
	e, err := m.NewExternal(r.Bytes()[100:3000], func() { freed++ })
	if err != nil {
		t.Fatal(err)
	}
	cache := p.NewCache(0)
	var pkts []*Buf
	for range 4 {
		b := p.Get()
		if e.Attach(b, 2900, 1) || e.Attach(b, -1, 1) || e.Attach(b, 0, -1) || e.Attach(b, 0, 2901) {
			t.Fatal("attached what is not there")
		}
		if !e.Attach(b, 50, 500) || b.PacketLen() != 500 || b.Headroom()+b.Tailroom() != 0 || &b.Bytes()[0] != &r.Bytes()[150] {
			t.Fatalf("%+v", b)
		}
		if want := r.regions[0].IOVA + 150; b.IOVA() != want || b.Lent() {
			t.Fatalf("device address %#x, want %#x", b.IOVA(), want)
		}
		pkts = append(pkts, b)
	}
	head := p.Get()
	head.Chain(pkts[3])
	head.Free()         // as the end of a chain
	pkts[2].Free()      // alone
	cache.Put(pkts[:2]) // through a cache
	if freed != 0 || r.InUse() != 1 {
		t.Errorf("given back %d times before Release, %d in use", freed, r.InUse())
	}
	if err := r.Unregister(ended()); err == nil || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 external buffers") {
		t.Errorf("unregistered while in use: %v", err)
	}
	time.AfterFunc(5*time.Millisecond, e.Release)
	if err := r.Unregister(t.Context()); err != nil {
		t.Error(err)
	}
	if cache.Flush(); freed != 1 || p.Free() != p.Size() {
		t.Errorf("given back %d times, %d buffers of %d are free", freed, p.Free(), p.Size())
	}
	for range p.Size() {
		b := p.Get()
		if b.Capacity() != DefaultSize || b.Headroom() != Headroom || b.Pool() != p {
			t.Fatalf("a buffer is not what it was: %d bytes", b.Capacity())
		}
		defer b.Free()
	}
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestFramePool(t *testing.T) {
	m, err := NewMemory(MemoryConfig{Size: 1 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	z, err := m.Alloc(8*2048, 64)
	if err != nil {
		t.Fatal(err)
	}
	p, frames, err := NewFramePool(m, "frames", z.Bytes, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if len(frames) != 8 || p.Free() != 0 || p.Get() != nil || p.Size() != 8 {
		t.Errorf("%d frames, %d of %d free", len(frames), p.Free(), p.Size())
	}
	for i := range frames {
		b := &frames[i]
		if b.Token() != uint32(i) || b.BaseIOVA() != z.IOVA+uint64(i)*2048 || &b.Raw()[0] != &z.Bytes[i*2048] {
			t.Errorf("frame %d: %+v", i, b)
		}
	}
	frames[3].Free()
	if b := p.Get(); b != &frames[3] || p.Grow(1) == nil {
		t.Error("the pool has other buffers than its frames")
	}
	for _, size := range []int{100, 3000, 1 << 17} {
		if _, _, err := NewFramePool(m, "bad", z.Bytes, size); err == nil {
			t.Errorf("frames of %d bytes", size)
		}
	}
}

// Two cache lines, so that neighbours share none.
func TestBufSize(t *testing.T) {
	if n := reflect.TypeFor[Buf]().Size(); n != 2*cacheLine {
		t.Errorf("a Buf has %d bytes, want %d", n, 2*cacheLine)
	}
}
