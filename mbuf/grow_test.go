package mbuf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestWithout(t *testing.T) {
	all := []AddrRange{{0x1000, 0x1fff}, {0x4000, 0x7fff}}
	tests := []struct {
		name string
		hole AddrRange
		want []AddrRange
	}{
		{"between", AddrRange{0x2000, 0x3fff}, all},
		{"a whole range", AddrRange{0x1000, 0x1fff}, []AddrRange{{0x4000, 0x7fff}}},
		{"front", AddrRange{0x4000, 0x4fff}, []AddrRange{{0x1000, 0x1fff}, {0x5000, 0x7fff}}},
		{"back", AddrRange{0x7000, 0x7fff}, []AddrRange{{0x1000, 0x1fff}, {0x4000, 0x6fff}}},
		{"middle", AddrRange{0x5000, 0x5fff}, []AddrRange{{0x1000, 0x1fff}, {0x4000, 0x4fff}, {0x6000, 0x7fff}}},
		{"over both", AddrRange{0x1800, 0x47ff}, []AddrRange{{0x1000, 0x17ff}, {0x4800, 0x7fff}}},
		{"all", AddrRange{0, 1<<64 - 1}, nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, without(all, tt.hole)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestGrowAddsRegions(t *testing.T) {
	m, err := NewMemory(MemoryConfig{Size: 1 << 20, NoHuge: true, IOVA: IOVARanges, Ranges: []AddrRange{{0, 0xffffff}, {4 << 30, 4<<30 + 3<<20 - 1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var heard []Region
	stop := m.OnGrow(func(added []Region) error {
		if _, err := m.Alloc(2<<20, 64); !errors.Is(err, ErrNoMemory) {
			t.Errorf("memory was handed out before it was mapped: %v", err)
		}
		heard = append(heard, added...)
		return nil
	})
	// 1 MiB stands at 4 GiB; 2 MiB fit behind it, and the third has to go low.
	for _, want := range []uint64{4<<30 + 1<<20, uint64(unix.Getpagesize())} {
		added, err := m.Grow(2<<20 - 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(added) != 1 || added[0].IOVA != want || len(added[0].Bytes) != 2<<20 {
			t.Errorf("grown by %d bytes at %#x, want 2 MiB at %#x", len(added[0].Bytes), added[0].IOVA, want)
		}
		if z, err := m.Alloc(2<<20, 64); err != nil || z.IOVA != want {
			t.Errorf("added memory was not handed out: %v", err)
		}
	}
	if len(heard) != 2 || len(m.Regions()) != 3 {
		t.Errorf("heard of %d regions, and there are %d", len(heard), len(m.Regions()))
	}
	stop()
	stop()
	if _, err := m.Grow(1); err != nil || len(heard) != 2 {
		t.Errorf("after the end of the subscription it heard of %d regions; %v", len(heard), err)
	}
	if _, err := m.Grow(1 << 30); err == nil || len(m.Regions()) != 4 {
		t.Errorf("more than there are addresses for: %v", err)
	}
	if _, err := m.Grow(0); err == nil {
		t.Error("a growth by 0 was accepted")
	}
	m.Close()
	if _, err := m.Grow(1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("growth of a closed memory: %v", err)
	}
}

func TestGrowIsUndoneWhenOneRefuses(t *testing.T) {
	before := openFiles(t)
	m := newTestMemory(t, 4096)
	var calls []string
	subscribe := func(name string, err error) (stop func()) {
		return m.OnGrow(
			func([]Region) error { calls = append(calls, name); return err },
			func(gone []Region) error {
				calls = append(calls, fmt.Sprintf("undo %s of %d", name, len(gone)))
				return nil
			},
		)
	}
	refusal := errors.New("no room in the IOMMU")
	subscribe("a", nil)
	subscribe("b", nil)
	stop := subscribe("c", refusal)
	subscribe("d", nil)
	if added, err := m.Grow(4096); !errors.Is(err, refusal) || added != nil {
		t.Errorf("%v, %v; want the subscriber's error", added, err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "undo b of 1", "undo a of 1"}, calls); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	if len(m.Regions()) != 1 {
		t.Errorf("%d regions", len(m.Regions()))
	}
	stop()
	if _, err := m.Grow(4096); err != nil {
		t.Errorf("without the one that refuses: %v", err)
	}
	m.Close()
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestB22GrowthStopsAtWhatVhostUserCarries(t *testing.T) {
	m := newTestMemory(t, 4096)
	told := 0
	m.OnGrow(func([]Region) error { told++; return nil })
	for range 7 {
		if _, err := m.Grow(4096); err != nil {
			t.Fatal(err)
		}
	}
	_, err := m.Grow(4096)
	for _, want := range []string{"region 9", "at most 8", "-m"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %q", err, want)
		}
	}
	if told != 7 || len(m.Regions()) != 8 {
		t.Errorf("told of %d growths, and there are %d regions", told, len(m.Regions()))
	}
}

func TestB22PoolOfAnySizeIsOneRegion(t *testing.T) {
	for _, pages := range []int{1, 8, 9, 64} {
		// Plain pages when hugepages are short: the count is the same.
		m, err := NewMemory(MemoryConfig{Size: pages * hugePageSize})
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPool(m, PoolConfig{Count: pages * hugePageSize / Stride(DefaultSize)})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(m.Regions()); n != 1 {
			t.Errorf("%d pages of 2 MiB: %d regions", pages, n)
		}
		if err := errors.Join(p.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestB22PagesThatCannotBeHad(t *testing.T) {
	before := openFiles(t)
	for name, tt := range map[string]struct {
		cfg  MemoryConfig
		want string
	}{
		"no power of two":         {MemoryConfig{Size: 1, PageSize: 3 << 20}, "must be a power of two"},
		"no such size":            {MemoryConfig{Size: 1, PageSize: 32 << 10}, "pages of 32 KiB: "},
		"switched off":            {MemoryConfig{Size: 1, PageSize: 2 << 20, NoHuge: true}, "switched off"},
		"physical in plain pages": {MemoryConfig{Size: 1, PageSize: unix.Getpagesize(), IOVA: IOVAPhysical}, "need hugepages"},
		"too few":                 {MemoryConfig{Size: 1 << 44, PageSize: 2 << 20}, "8388608 hugepages of 2 MiB wanted"},
		"too few, physical":       {MemoryConfig{Size: 1 << 44, IOVA: IOVAPhysical}, "nr_hugepages"},
		"more than a number":      {MemoryConfig{Size: 1<<63 - 1}, "round up"},
		"nothing":                 {MemoryConfig{}, "more than 0"},
	} {
		m, err := NewMemory(tt.cfg)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, tt.want)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, %d before", after, before)
	}
}

func TestPoolGrows(t *testing.T) {
	m := newTestMemory(t, 100*Stride(DefaultSize))
	p, err := NewPool(m, PoolConfig{Count: 60})
	if err != nil {
		t.Fatal(err)
	}
	// The memory has room for 30, not for 50 more.
	for _, step := range []struct{ n, size, regions int }{{30, 90, 1}, {50, 140, 2}} {
		if err := p.Grow(step.n); err != nil {
			t.Fatal(err)
		}
		if p.Size() != step.size || p.Free() != step.size || len(m.Regions()) != step.regions {
			t.Errorf("after %d more: size %d, free %d, %d regions; want %d, %d, %d", step.n, p.Size(), p.Free(), len(m.Regions()), step.size, step.size, step.regions)
		}
	}
	seen := map[uint64]bool{}
	var out []*Buf
	for b := p.Get(); b != nil; b = p.Get() {
		if seen[b.BaseIOVA()] || b.Capacity() != DefaultSize || b.Pool() != p {
			t.Fatalf("buffer at %#x of %d bytes", b.BaseIOVA(), b.Capacity())
		}
		seen[b.BaseIOVA()] = true
		out = append(out, b)
	}
	if len(out) != 140 {
		t.Errorf("%d buffers came out", len(out))
	}
	if allocs := testing.AllocsPerRun(1, func() {
		p.give(out)
		p.take(out)
	}); allocs != 0 {
		t.Errorf("giving all buffers back allocates %v times", allocs)
	}
	p.give(out)

	m.OnGrow(func([]Region) error { return errors.New("refused") })
	if err := p.Grow(1000); err == nil || !strings.HasSuffix(err.Error(), "refused") || p.Size() != 140 {
		t.Errorf("a growth that is refused: %v, size %d", err, p.Size())
	}
	if err := p.Grow(0); err == nil {
		t.Error("a growth by 0 was accepted")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Grow(1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("growth of a closed pool: %v", err)
	}
	if got := m.areas[0].free; len(got) != 1 || got[0].end != len(m.areas[0].Bytes) {
		t.Errorf("the memory is not whole: %v", got)
	}
}

// TestPoolGrowsUnderLoad grows a pool and subscribes to its memory while
// other goroutines take and give back buffers.
func TestPoolGrowsUnderLoad(t *testing.T) {
	p := newTestPool(t, 64, 0)
	stopped := make(chan struct{})
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			cache := p.NewCache(8)
			defer cache.Flush()
			for {
				var burst [32]*Buf
				n := cache.Get(burst[:])
				for _, b := range burst[:n] {
					b.Reset()
				}
				cache.Put(burst[:n])
				select {
				case <-stopped:
					return
				default:
				}
			}
		})
	}
	workers.Go(func() {
		for {
			mapAll(t, p.Memory())
			select {
			case <-stopped:
				return
			default:
			}
		}
	})
	var growers sync.WaitGroup
	for range 2 {
		growers.Go(func() {
			for range 3 {
				if err := p.Grow(100); err != nil {
					t.Error(err)
				}
			}
		})
	}
	growers.Wait()
	close(stopped)
	workers.Wait()
	if p.Size() != 664 || p.Free() != 664 {
		t.Errorf("%d of %d buffers are free, want 664", p.Free(), p.Size())
	}
}

// mapAll is a transport that maps the memory as OnGrow wants it.
func mapAll(t *testing.T, m *Memory) {
	var mu sync.Mutex
	mapped := map[uintptr]bool{}
	add := func(regions []Region) {
		for _, r := range regions {
			if mapped[r.Addr()] {
				t.Error("a region was mapped twice")
			}
			mapped[r.Addr()] = true
		}
	}
	mu.Lock()
	stop := m.OnGrow(func(added []Region) error {
		mu.Lock()
		defer mu.Unlock()
		add(added)
		return nil
	})
	add(m.Regions())
	mu.Unlock()
	runtime.Gosched()
	stop()
}

func TestPhysicalRunsAreFused(t *testing.T) {
	const size = 16
	mem := make([]byte, 6*size)
	addresses := []uint64{0x100, 0x110, 0x400, 0x3f0, 0x500, 0x510}
	type run struct {
		IOVA   uint64
		Offset int64
		Size   int
	}
	var got []run
	for _, r := range fuse(Region{Bytes: mem, FD: 3, PageSize: size}, addresses) {
		got = append(got, run{r.IOVA, r.Offset, len(r.Bytes)})
		if r.FD != 3 || r.PageSize != size || &r.Bytes[0] != &mem[r.Offset] {
			t.Errorf("region %+v", r)
		}
	}
	want := []run{{0x100, 0, 32}, {0x400, 32, 16}, {0x3f0, 48, 16}, {0x500, 64, 32}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
