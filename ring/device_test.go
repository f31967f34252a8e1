package ring

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// arena is shared memory at device address arenaBase: three areas of a ring
// and room behind them.
type arena struct {
	l                 SplitLayout
	mem               []byte
	desc, avail, used []byte
}

const arenaBase = 0x10000

func newArena(tb testing.TB, size int) *arena {
	tb.Helper()
	l, err := NewSplitLayout(size)
	if err != nil {
		tb.Fatal(err)
	}
	raw := make([]byte, l.Total+UsedAlign+64<<10)
	for !aligned(raw, UsedAlign) {
		raw = raw[16:]
		if !aligned(raw, 16) {
			tb.Skip("memory is not aligned to 16")
		}
	}
	a := &arena{l: l, mem: raw}
	a.desc = raw[:l.DescLen()]
	a.avail = raw[l.AvailOff : l.AvailOff+l.AvailLen]
	a.used = raw[l.UsedOff : l.UsedOff+l.UsedLen]
	return a
}

func (a *arena) translate(addr uint64, n uint32) ([]byte, bool) {
	off := addr - arenaBase
	if off > uint64(len(a.mem)) || uint64(n) > uint64(len(a.mem))-off {
		return nil, false
	}
	return a.mem[off : off+uint64(n)], true
}

func (a *arena) device(tb testing.TB) *SplitDevice {
	tb.Helper()
	d, err := NewSplitDevice(a.l.Size, a.desc, a.avail, a.used, DeviceOptions{Translate: a.translate})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// takeOne takes one chain.
func takeOne(d Device, pieces []Piece) (head uint16, n int, ok bool) {
	var chain [1]Chain
	if d.Take(chain[:], pieces) == 0 {
		return 0, 0, false
	}
	return chain[0].Head, int(chain[0].Pieces), true
}

func (a *arena) setDesc(i int, d Desc) { putDesc(a.desc[i*DescSize:], d) }
func (a *arena) setAvail(slot int, head uint16) {
	binary.LittleEndian.PutUint16(a.avail[4+2*slot:], head)
}
func (a *arena) setAvailIdx(idx uint16) { binary.LittleEndian.PutUint16(a.avail[2:], idx) }
func (a *arena) usedIdx() uint16        { return binary.LittleEndian.Uint16(a.used[2:]) }
func (a *arena) usedFlags() uint16      { return binary.LittleEndian.Uint16(a.used) }

func putDesc(b []byte, d Desc) {
	binary.LittleEndian.PutUint64(b, d.Addr)
	binary.LittleEndian.PutUint32(b[8:], d.Len)
	binary.LittleEndian.PutUint16(b[12:], d.Flags)
	binary.LittleEndian.PutUint16(b[14:], d.Next)
}

// tableAt is the offset in the arena where the tests put indirect tables.
const tableAt = 32 << 10

func TestSplitDeviceChains(t *testing.T) {
	a := newArena(t, 8)
	a.setDesc(3, Desc{Addr: 0x100, Len: 12, Flags: DescNext, Next: 5})
	a.setDesc(5, Desc{Addr: 0x200, Len: 60, Flags: DescNext, Next: 0})
	a.setDesc(0, Desc{Addr: 0x300, Len: 1, Flags: DescWrite})
	a.setDesc(1, Desc{Addr: arenaBase + tableAt, Len: 2 * DescSize, Flags: DescIndirect})
	putDesc(a.mem[tableAt:], Desc{Addr: 0x400, Len: 7, Flags: DescNext, Next: 1})
	putDesc(a.mem[tableAt+DescSize:], Desc{Addr: 0x500, Len: 9})
	a.setAvail(0, 3)
	a.setAvail(1, 1)
	a.setAvailIdx(2)

	d := a.device(t)
	if n := d.Pending(); n != 2 {
		t.Fatalf("Pending = %d, want 2", n)
	}
	want := []struct {
		head   uint16
		pieces []Piece
	}{
		{3, []Piece{{0x100, 12, false}, {0x200, 60, false}, {0x300, 1, true}}},
		{1, []Piece{{0x400, 7, false}, {0x500, 9, false}}},
	}
	pieces := make([]Piece, 8)
	for _, w := range want {
		head, n, ok := takeOne(d, pieces)
		if !ok || head != w.head {
			t.Fatalf("Take = %d, %v, want %d; %v", head, ok, w.head, d.Err())
		}
		if diff := cmp.Diff(w.pieces, pieces[:n]); diff != "" {
			t.Errorf("chain %d (-want +got):\n%s", head, diff)
		}
		d.Complete([]Completion{{head, 4}})
	}
	if a.usedIdx() != 0 {
		t.Errorf("used index %d before Flush, want 0", a.usedIdx())
	}
	if !d.Flush() {
		t.Error("Flush: the driver did not forbid interrupts, want true")
	}
	if a.usedIdx() != 2 {
		t.Errorf("used index %d after Flush, want 2", a.usedIdx())
	}
	binary.LittleEndian.PutUint16(a.avail, AvailNoInterrupt)
	d.Complete([]Completion{{0, 0}})
	if d.Flush() {
		t.Error("Flush wants an interrupt that the driver has forbidden")
	}
	if d.Flush() {
		t.Error("Flush of nothing wants an interrupt")
	}
}

func TestSplitDeviceReturn(t *testing.T) {
	a := newArena(t, 4)
	a.setAvail(0, 2)
	a.setAvail(1, 1)
	a.setAvailIdx(2)
	d := a.device(t)
	var pieces [4]Piece
	takeOne(d, pieces[:])
	takeOne(d, pieces[:])
	if _, _, ok := takeOne(d, pieces[:]); ok {
		t.Error("Take of a third chain of two")
	}
	d.Return(2)
	if head, _, ok := takeOne(d, pieces[:]); !ok || head != 2 || d.Base() != 1 {
		t.Errorf("after Return: head %d, %v, next %d, want 2, true, 1", head, ok, d.Base())
	}
}

func TestSplitDeviceNotify(t *testing.T) {
	a := newArena(t, 4)
	d := a.device(t)
	d.Complete([]Completion{{0, 0}})
	d.Notify(false)
	if a.usedFlags() != UsedNoNotify || a.usedIdx() != 0 {
		t.Errorf("flags %d, index %d, want %d, 0", a.usedFlags(), a.usedIdx(), UsedNoNotify)
	}
	d.Flush()
	if a.usedFlags() != UsedNoNotify || a.usedIdx() != 1 {
		t.Errorf("flags %d, index %d, want %d, 1", a.usedFlags(), a.usedIdx(), UsedNoNotify)
	}
	d.Notify(true)
	if a.usedFlags() != 0 || a.usedIdx() != 1 {
		t.Errorf("flags %d, index %d, want 0, 1", a.usedFlags(), a.usedIdx())
	}
}

// A device that starts over a ring in use goes on where the used ring ends.
func TestB28SplitDeviceResumes(t *testing.T) {
	a := newArena(t, 4)
	a.setAvailIdx(9)
	binary.LittleEndian.PutUint16(a.used[2:], 7)
	binary.LittleEndian.PutUint16(a.used, UsedNoNotify)
	d := a.device(t)
	if d.Base() != 7 || d.Pending() != 2 {
		t.Errorf("next %d, pending %d, want 7, 2", d.Base(), d.Pending())
	}
	if a.usedFlags() != 0 || a.usedIdx() != 7 {
		t.Errorf("used word %d|%d, want 0|7", a.usedFlags(), a.usedIdx())
	}
}

func TestB23SplitDeviceRules(t *testing.T) {
	loop := func(a *arena) {
		a.setDesc(0, Desc{Flags: DescNext, Next: 1})
		a.setDesc(1, Desc{Flags: DescNext, Next: 0})
	}
	table := func(n uint32, entries ...Desc) func(*arena) {
		return func(a *arena) {
			a.setDesc(0, Desc{Addr: arenaBase + tableAt, Len: n, Flags: DescIndirect})
			for i, e := range entries {
				putDesc(a.mem[tableAt+i*DescSize:], e)
			}
		}
	}
	tests := []struct {
		name  string
		idx   uint16
		head  uint16
		set   func(*arena)
		field string
	}{
		{"index jumps by size+1", 5, 0, nil, "available index"},
		{"index runs backwards", 0xffff, 0, nil, "available index"},
		{"head is the size", 1, 4, nil, "available entry"},
		{"head 65535", 1, 0xffff, nil, "available entry"},
		{"loop", 1, 0, loop, "descriptor"},
		{"next outside", 1, 0, func(a *arena) { a.setDesc(0, Desc{Flags: DescNext, Next: 4}) }, "next descriptor"},
		{"read behind write", 1, 0, func(a *arena) {
			a.setDesc(0, Desc{Flags: DescNext | DescWrite, Next: 1})
		}, "descriptor flags"},
		{"indirect with next", 1, 0, func(a *arena) {
			a.setDesc(0, Desc{Len: 16, Flags: DescIndirect | DescNext})
		}, "descriptor flags"},
		{"table of 0", 1, 0, table(0), "indirect length"},
		{"table of a piece", 1, 0, table(17), "indirect length"},
		{"table longer than the queue", 1, 0, table(5 * DescSize), "indirect length"},
		{"table of 4 GiB", 1, 0, table(0xfffffff0), "indirect length"},
		{"table elsewhere", 1, 0, func(a *arena) {
			a.setDesc(0, Desc{Addr: 1 << 63, Len: 16, Flags: DescIndirect})
		}, "indirect address"},
		{"table in a table", 1, 0, table(16, Desc{Flags: DescIndirect}), "indirect flags"},
		{"table next outside", 1, 0, table(32, Desc{Flags: DescNext, Next: 2}), "next indirect descriptor"},
		{"table loop", 1, 0, table(16, Desc{Flags: DescNext}), "indirect descriptor"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newArena(t, 4)
			if tt.set != nil {
				tt.set(a)
			}
			a.setAvail(0, tt.head)
			a.setAvailIdx(tt.idx)
			d := a.device(t)
			pieces := make([]Piece, 16)
			if _, _, ok := takeOne(d, pieces); ok {
				t.Fatal("Take took it")
			}
			var rule *RuleError
			if !errors.As(d.Err(), &rule) || rule.Field != tt.field {
				t.Fatalf("Err = %v, want a rule about %q", d.Err(), tt.field)
			}
			a.setAvail(0, 1)
			a.setAvailIdx(1)
			if _, _, ok := takeOne(d, pieces); ok || d.Pending() != 0 {
				t.Error("a broken ring went on")
			}
		})
	}
	t.Run("more pieces than the caller takes", func(t *testing.T) {
		a := newArena(t, 4)
		a.setDesc(0, Desc{Flags: DescNext, Next: 1})
		a.setAvailIdx(1)
		d := a.device(t)
		if _, _, ok := takeOne(d, make([]Piece, 1)); ok || d.Err() == nil {
			t.Errorf("Take = %v, Err = %v, want false and an error", ok, d.Err())
		}
	})
}

func TestNewSplitDeviceRefuses(t *testing.T) {
	a := newArena(t, 8)
	tests := []struct {
		name              string
		size              int
		desc, avail, used []byte
	}{
		{"size 0", 0, a.desc, a.avail, a.used},
		{"size 6", 6, a.desc, a.avail, a.used},
		{"short descriptors", 8, a.desc[:127], a.avail, a.used},
		{"short available ring", 8, a.desc, a.avail[:19], a.used},
		{"short used ring", 8, a.desc, a.avail, a.used[:67]},
		{"misaligned descriptors", 8, a.mem[8:], a.avail, a.used},
		{"misaligned available ring", 8, a.desc, a.mem[2:], a.used},
		{"misaligned used ring", 8, a.desc, a.avail, a.mem[2:]},
	}
	for _, tt := range tests {
		if _, err := NewSplitDevice(tt.size, tt.desc, tt.avail, tt.used, DeviceOptions{Translate: a.translate}); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
}

// Whatever lies in the areas, the device neither panics nor loops.
func TestB23SplitDeviceAnyMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 2, 8}).Draw(t, "size")
		l, _ := NewSplitLayout(size)
		words := rapid.SliceOfN(rapid.Uint64Range(0, 40), l.Total/8+1, l.Total/8+1).Draw(t, "memory")
		mem := wordBytes(words)
		for i := range size { // flags and next of descriptors, head entries
			binary.LittleEndian.PutUint32(mem[i*DescSize+12:], rapid.Uint32().Draw(t, "flags")&0x00070007)
		}
		translate := func(addr uint64, n uint32) ([]byte, bool) {
			if addr > uint64(len(mem)) || uint64(n) > uint64(len(mem))-addr {
				return nil, false
			}
			return mem[addr : addr+uint64(n)], true
		}
		d, err := NewSplitDevice(size, mem[:l.DescLen()], mem[l.AvailOff:][:l.AvailLen], mem[l.UsedOff:][:l.UsedLen], DeviceOptions{Translate: translate})
		if err != nil {
			t.Skip(err)
		}
		pieces := make([]Piece, 2*size)
		for taken := 0; ; taken++ {
			head, n, ok := takeOne(d, pieces)
			if !ok {
				break
			}
			if taken == size || int(head) >= size || n < 1 || n > 2*size {
				t.Fatalf("chain %d: head %d of %d pieces in a queue of %d", taken, head, n, size)
			}
		}
	})
}

// The two sides against each other: everything comes round, in order.
func TestSplitBothSides(t *testing.T) {
	a := newArena(t, 8)
	drv, err := NewSplit(8, 8, a.desc, a.avail, a.used, Options{})
	if err != nil {
		t.Fatal(err)
	}
	dev := a.device(t)
	pieces := make([]Piece, 8)
	done := make([]Completion, 8)
	segs, heads := make([]Segment, 8), make([]uint16, 8)
	for round := range 100_000 {
		n := round%3 + 1
		for i := range n {
			segs[i] = Segment{Addr: uint64(round*8 + i), Len: uint32(i)}
		}
		drv.AddEach(segs[:n], DescWrite, heads[:n])
		drv.Publish()
		for i := range n {
			head, k, ok := takeOne(dev, pieces)
			if !ok || k != 1 || pieces[0].Addr != uint64(round*8+i) {
				t.Fatalf("round %d: Take = %d, %v, %+v; %v", round, k, ok, pieces[0], dev.Err())
			}
			dev.Complete([]Completion{{head, uint32(i) + 100}})
		}
		if dev.Flush() {
			t.Fatal("an interrupt that the driver has not asked for")
		}
		if got := drv.Harvest(done); got != n || done[n-1].Len != uint32(n)+99 {
			t.Fatalf("round %d: %d completions, last %+v; %v", round, got, done[n-1], drv.Err())
		}
	}
}

// BenchmarkSplitDevice takes and completes bursts of 32 chains of one piece.
func BenchmarkSplitDevice(b *testing.B) {
	a := newArena(b, 256)
	for i := range 256 {
		a.setDesc(i, Desc{Addr: uint64(i), Len: 64})
		a.setAvail(i, uint16(i))
	}
	dev := a.device(b)
	var pieces [8]Piece
	b.ReportAllocs()
	idx := uint16(0)
	for n := 0; n < b.N; n += 32 {
		idx += 32
		dev.areas.availWord.Store(uint32(idx) << 16)
		for range 32 {
			head, _, ok := takeOne(dev, pieces[:])
			if !ok {
				b.Fatal(dev.Err())
			}
			dev.Complete([]Completion{{head, 64}})
		}
		dev.Flush()
	}
}
