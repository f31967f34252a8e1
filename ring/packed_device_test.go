package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sides are both sides of a virtqueue, and what each must know of the other.
type sides struct {
	drv     Driver
	dev     Device
	opts    Options
	packed  bool
	limit   int                               // descriptors
	rebuild func(base uint32) (Device, error) // another device, over the same ring

	offered []uint16 // made available, not taken, by head
	segs    map[uint16][]Segment
	taken   []uint16
	recent  int          // of those, since the last completion
	done    []Completion // completed, not shown
	shown   []Completion // and shown, not harvested
	armed   bool         // the driver waits for an interrupt,
	due     int          // which comes after that many: chains, or descriptors if packed
	asleep  bool         // the next chain must be kicked for
	serial  uint64
}

const sidesBase = 0x10000

func newSides(tb testing.TB, packed bool, size int, opts Options, indirect bool) *sides {
	tb.Helper()
	tables := make([]byte, max(size*IndirectLen, 1<<15))
	if indirect {
		opts.Indirect, opts.IndirectIOVA = tables, sidesBase
	}
	devOpts := DeviceOptions{EventIdx: opts.EventIdx, Translate: func(addr uint64, n uint32) ([]byte, bool) {
		off := addr - sidesBase
		if off > uint64(len(tables)) || uint64(n) > uint64(len(tables))-off {
			return nil, false
		}
		return tables[off:][:n], true
	}}
	s := &sides{opts: opts, packed: packed, limit: size, segs: map[uint16][]Segment{}, asleep: true}
	var err, devErr error
	if packed {
		l, layoutErr := NewPackedLayout(size)
		if layoutErr != nil {
			tb.Fatal(layoutErr)
		}
		mem := make([]byte, max(l.Total, 1<<15))
		desc, driver, device := mem[:l.DescLen()], mem[l.DriverOff:][:EventLen], mem[l.DeviceOff:][:EventLen]
		s.drv, err = NewPacked(size, size, desc, driver, device, opts)
		s.rebuild = func(base uint32) (Device, error) {
			return NewPackedDevice(size, desc, driver, device, base, nil, devOpts)
		}
		s.dev, devErr = s.rebuild(FreshPacked)
	} else {
		l, layoutErr := NewSplitLayout(size)
		if layoutErr != nil {
			tb.Fatal(layoutErr)
		}
		mem := make([]byte, max(l.Total, 1<<15))
		desc, avail, used := mem[:l.DescLen()], mem[l.AvailOff:][:l.AvailLen], mem[l.UsedOff:][:l.UsedLen]
		s.drv, err = NewSplit(size, size, desc, avail, used, opts)
		s.rebuild = func(uint32) (Device, error) { return NewSplitDevice(size, desc, avail, used, devOpts) }
		s.dev, devErr = s.rebuild(0)
	}
	if err = errors.Join(err, devErr); err != nil {
		tb.Fatal(err)
	}
	return s
}

func (s *sides) add(rng *rand.Rand) error {
	var all []Segment
	var lengths []uint16
	var heads [3]uint16
	free := s.drv.Free()
	for range 1 + rng.IntN(3) {
		n := 1 + rng.IntN(4)
		if s.drv.Cost(n) > free {
			break
		}
		free -= s.drv.Cost(n)
		for range n {
			s.serial++
			all = append(all, Segment{Addr: s.serial << 8, Len: uint32(s.serial)})
		}
		lengths = append(lengths, uint16(n))
	}
	if len(lengths) == 0 {
		return nil
	}
	s.drv.AddChains(all, lengths, heads[:])
	for i, n := range lengths {
		s.offered = append(s.offered, heads[i])
		s.segs[heads[i]] = all[:n]
		all = all[n:]
	}
	s.drv.Publish()
	if kick := s.drv.NeedKick(); s.asleep && !kick {
		return errors.New("the device sleeps and is not kicked")
	}
	s.asleep = false
	return nil
}

func (s *sides) take(rng *rand.Rand) error {
	pieces := make([]Piece, 8)
	for range 1 + rng.IntN(4) {
		id, n, ok := takeOne(s.dev, pieces)
		if ok != (len(s.offered) > 0) {
			return fmt.Errorf("Take = %v, with %d offered: %v", ok, len(s.offered), s.dev.Err())
		}
		if !ok {
			return nil
		}
		want := s.segs[s.offered[0]]
		if id != s.offered[0] || n != len(want) {
			return fmt.Errorf("took %d of %d pieces, want %d of %d", id, n, s.offered[0], len(want))
		}
		for i, p := range pieces[:n] {
			if p != (Piece{want[i].Addr, want[i].Len, false}) {
				return fmt.Errorf("piece %d is %+v, want %+v", i, p, want[i])
			}
		}
		s.offered, s.taken = s.offered[1:], append(s.taken, id)
		s.recent++
	}
	return nil
}

// putBack returns chains that were taken last.
func (s *sides) putBack(rng *rand.Rand) {
	n := rng.IntN(s.recent + 1)
	at := len(s.taken) - n
	s.offered = append(slices.Clone(s.taken[at:]), s.offered...)
	s.taken = s.taken[:at]
	s.recent -= n
	s.dev.Return(n)
}

func (s *sides) complete(rng *rand.Rand) error {
	s.recent = 0
	for range rng.IntN(len(s.taken) + 1) {
		i := 0
		if !s.opts.InOrder {
			i = rng.IntN(len(s.taken))
		}
		id := s.taken[i]
		s.taken = slices.Delete(s.taken, i, i+1)
		s.serial++
		s.done = append(s.done, Completion{id, uint32(s.serial)})
		s.dev.Complete([]Completion{{id, uint32(s.serial)}})
	}
	interrupt := s.dev.Flush()
	for _, c := range s.done {
		s.due -= s.places(c.Head)
	}
	reached := len(s.done) > 0 && s.due <= 0
	s.shown, s.done = append(s.shown, s.done...), nil
	switch {
	case s.armed && reached && !interrupt:
		return errors.New("the driver waits for an interrupt and gets none")
	case s.armed && s.opts.EventIdx && interrupt && !reached:
		return fmt.Errorf("the driver is interrupted %d places too early", s.due)
	}
	s.armed = s.armed && !reached
	return nil
}

// places is by how much the completion of a chain moves the position of the
// next one.
func (s *sides) places(head uint16) int {
	if s.packed {
		return s.drv.Cost(len(s.segs[head]))
	}
	return 1
}

// arm asks for an interrupt when a random number of descriptors is free.
func (s *sides) arm(rng *rand.Rand) error {
	chains := len(s.offered) + len(s.taken) + len(s.shown)
	owned := s.limit - s.drv.Free()
	s.due = 1
	if owned == 0 || rng.IntN(2) == 0 {
		s.armed = s.drv.Arm()
	} else {
		n := 1 + rng.IntN(owned)
		s.armed = s.drv.ArmAfter(n)
		switch {
		case s.opts.EventIdx && s.packed:
			s.due = n
		case s.opts.EventIdx:
			s.due = (n*chains + owned - 1) / owned
		}
	}
	if s.armed != (len(s.shown) == 0) {
		return fmt.Errorf("armed: %v, with %d completions to harvest", s.armed, len(s.shown))
	}
	return nil
}

func (s *sides) harvest(rng *rand.Rand) error {
	dst := make([]Completion, 1+rng.IntN(8))
	n := s.drv.Harvest(dst)
	if want := min(len(dst), len(s.shown)); n != want || !slices.Equal(dst[:n], s.shown[:n]) {
		return fmt.Errorf("harvested %+v, want %d of %+v: %v", dst[:n], want, s.shown, s.drv.Err())
	}
	s.shown = s.shown[n:]
	return nil
}

func (s *sides) suppress(rng *rand.Rand) error {
	switch rng.IntN(4) {
	case 0:
		return s.arm(rng)
	case 1:
		s.drv.Disarm()
		s.armed = false
	case 2:
		s.dev.Notify(false)
		s.asleep = false
	case 3:
		s.dev.Notify(true)
		s.asleep = s.dev.Pending() == 0
	}
	return nil
}

// another has a new device go on where this one is, as after a stop.
func (s *sides) another() (err error) {
	if len(s.taken) > 0 {
		return nil
	}
	s.dev, err = s.rebuild(s.dev.Base())
	s.asleep = false
	return err
}

// Both sides against each other, a million random steps in all: no chain is
// lost, changed or seen twice, and nobody sleeps on.
func TestB19BothSides(t *testing.T) {
	const steps = 1_000_000
	var kinds []func() error
	for _, packed := range []bool{false, true} {
		for _, opts := range []Options{{}, {InOrder: true}, {EventIdx: true}, {InOrder: true, EventIdx: true}} {
			for _, indirect := range []bool{false, true} {
				size := 16
				if packed && indirect {
					size = 11
				}
				kinds = append(kinds, func() error {
					s := newSides(t, packed, size, opts, indirect)
					rng := rand.New(rand.NewPCG(uint64(len(kinds)), 3))
					for i := range steps / 16 {
						if err := s.step(rng); err != nil {
							return fmt.Errorf("packed=%v %+v indirect=%v, step %d: %w", packed, opts, indirect, i, err)
						}
					}
					return nil
				})
			}
		}
	}
	for _, run := range kinds {
		if err := run(); err != nil {
			t.Error(err)
		}
	}
}

func (s *sides) step(rng *rand.Rand) (err error) {
	switch rng.IntN(14) {
	case 0, 1, 2:
		err = s.add(rng)
	case 3, 4, 5:
		err = s.take(rng)
	case 6:
		s.putBack(rng)
	case 7, 8:
		err = s.complete(rng)
	case 9, 10:
		err = s.harvest(rng)
	case 11, 12:
		err = s.suppress(rng)
	case 13:
		err = s.another()
	}
	return errors.Join(err, s.drv.Err(), s.dev.Err())
}

// packedArena is a packed virtqueue that a test writes by hand.
func packedArena(tb testing.TB, size int) (a *arena, dev *PackedDevice) {
	tb.Helper()
	a = newArena(tb, 8)
	dev, err := NewPackedDevice(size, a.mem[:size*DescSize], a.avail, a.used, FreshPacked, nil, DeviceOptions{Translate: a.translate})
	if err != nil {
		tb.Fatal(err)
	}
	return a, dev
}

func (a *arena) setPacked(i int, addr uint64, n uint32, id, flags uint16) {
	putDesc(a.mem[i*DescSize:], Desc{Addr: addr, Len: n, Flags: id, Next: flags})
}

// setPackedEntry writes an entry of the indirect table, with an id that says
// nothing.
func (a *arena) setPackedEntry(i int, e Desc) {
	putDesc(a.mem[tableAt+i*DescSize:], Desc{Addr: e.Addr, Len: e.Len, Flags: 0xffff, Next: e.Flags})
}

const available = 1 << 7

// DPDK 22.11 numbers the entries of its tables, and leaves WRITE on some that
// are to be read.
func TestPackedDeviceReadsTablesOfDPDK(t *testing.T) {
	a := newArena(t, 8)
	dev, err := NewPackedDevice(3, a.mem[:3*DescSize], a.avail, a.used, FreshPacked, nil, DeviceOptions{Translate: a.translate, ReadTables: true})
	if err != nil {
		t.Fatal(err)
	}
	a.setPacked(0, arenaBase+tableAt, 3*DescSize, 0, available|DescIndirect)
	a.setPackedEntry(0, Desc{Addr: 0x100, Len: 12, Flags: DescWrite})
	a.setPackedEntry(1, Desc{Addr: 0x200, Len: 7, Flags: DescNext | available})
	a.setPackedEntry(2, Desc{Addr: 0x300, Len: 9, Flags: DescWrite})
	chains, pieces := make([]Chain, 1), make([]Piece, 4)
	if n := dev.Take(chains, pieces); n != 1 || dev.Err() != nil {
		t.Fatalf("Take = %d, Err = %v", n, dev.Err())
	}
	want := []Piece{{Addr: 0x100, Len: 12}, {Addr: 0x200, Len: 7}, {Addr: 0x300, Len: 9}}
	if diff := cmp.Diff(want, pieces[:chains[0].Pieces]); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
}

func TestB23PackedDeviceRules(t *testing.T) {
	indirect := func(n uint32, flags uint16, entries ...Desc) func(*arena) {
		return func(a *arena) {
			a.setPacked(0, arenaBase+tableAt, n, 0, available|DescIndirect|flags)
			for i, e := range entries {
				a.setPackedEntry(i, e)
			}
		}
	}
	tests := []struct {
		name  string
		set   func(*arena)
		field string
	}{
		{"id is the size", func(a *arena) { a.setPacked(0, 0, 1, 3, available) }, "buffer id"},
		{"id 65535", func(a *arena) { a.setPacked(0, 0, 1, 65535, available) }, "buffer id"},
		{"chain goes on into nothing", func(a *arena) { a.setPacked(0, 0, 1, 0, available|DescNext) }, "descriptor flags"},
		{"endless chain", func(a *arena) {
			for i := range 3 {
				a.setPacked(i, 0, 1, 0, available|DescNext)
			}
		}, "descriptor"},
		{"read behind write", func(a *arena) {
			a.setPacked(0, 0, 1, 0, available|DescNext|DescWrite)
			a.setPacked(1, 0, 1, 0, available)
		}, "descriptor flags"},
		{"indirect with next", indirect(16, DescNext), "descriptor flags"},
		{"table of 0", indirect(0, 0), "indirect length"},
		{"table of a piece", indirect(17, 0), "indirect length"},
		{"table longer than the queue", indirect(64, 0), "indirect length"},
		{"table of 4 GiB", indirect(0xfffffff0, 0), "indirect length"},
		{"table elsewhere", func(a *arena) { a.setPacked(0, 1<<63, 16, 0, available|DescIndirect) }, "indirect address"},
		{"table in a table", indirect(16, 0, Desc{Flags: DescIndirect}), "indirect flags"},
	}
	for _, tt := range tests {
		a, dev := packedArena(t, 3)
		tt.set(a)
		var rule *RuleError
		if _, _, ok := takeOne(dev, make([]Piece, 16)); ok || !errors.As(dev.Err(), &rule) || rule.Field != tt.field {
			t.Errorf("%s: Take = %v, Err = %v, want a rule about %q", tt.name, ok, dev.Err(), tt.field)
		}
		a.setPacked(0, 0, 1, 0, available)
		if _, _, ok := takeOne(dev, make([]Piece, 16)); ok || dev.Pending() != 0 {
			t.Errorf("%s: a broken ring went on", tt.name)
		}
	}

	a, dev := packedArena(t, 3)
	a.setPacked(0, 0, 1, 2, available)
	a.setPacked(1, 0, 1, 2, available)
	takeOne(dev, make([]Piece, 1))
	if _, _, ok := takeOne(dev, make([]Piece, 1)); ok || dev.Err() == nil {
		t.Error("the same buffer was taken twice")
	}
	a, dev = packedArena(t, 3)
	for i := range 3 {
		a.setPacked(i, 0, 1, uint16(i), available)
		takeOne(dev, make([]Piece, 1))
	}
	a.setPacked(0, 0, 1, 0, 1<<15) // the next time round, with nothing given back
	if _, _, ok := takeOne(dev, make([]Piece, 1)); ok || dev.Err() == nil {
		t.Error("four descriptors of three were taken")
	}
	a, dev = packedArena(t, 3)
	for i := range 3 {
		a.setPacked(i, 0, 1, uint16(i), available)
		id, _, _ := takeOne(dev, make([]Piece, 1))
		dev.Complete([]Completion{{id, 0}})
	}
	a.setPacked(0, 0, 1, 0, 1<<15) // the next time round, before the driver has seen any
	if _, _, ok := takeOne(dev, make([]Piece, 1)); ok || dev.Err() == nil {
		t.Error("a descriptor was taken that the driver had not got back")
	}
}

// What a completion looks like (virtio 1.2, sections 2.8.4 and 2.8.13).
func TestPackedDeviceUsed(t *testing.T) {
	a, dev := packedArena(t, 3)
	pieces := make([]Piece, 2)
	used := func(i int) (id, flags uint16, n uint32) {
		d := a.mem[i*DescSize:]
		return binary.LittleEndian.Uint16(d[12:]), binary.LittleEndian.Uint16(d[14:]), binary.LittleEndian.Uint32(d[8:])
	}
	a.setPacked(0, 0x100, 10, 7, available|DescNext)
	a.setPacked(1, 0x200, 20, 2, available|DescWrite)
	a.setPacked(2, 0x300, 30, 1, available)
	for _, want := range []uint16{2, 1} {
		if id, _, ok := takeOne(dev, pieces); !ok || id != want {
			t.Fatalf("took %d, %v, want %d: %v", id, ok, want, dev.Err())
		}
	}
	dev.Complete([]Completion{{1, 0}})
	dev.Complete([]Completion{{2, 15}})
	if _, flags, _ := used(0); flags != available|DescNext {
		t.Errorf("flags %#x before Flush", flags)
	}
	if !dev.Flush() || dev.Flush() {
		t.Error("want an interrupt for the burst and none for nothing")
	}
	// Out of order: the chain of one first, then that of two behind it.
	if id, flags, n := used(0); id != 1 || flags != 0x8080 || n != 0 {
		t.Errorf("first: id %d, flags %#x, length %d, want 1, 0x8080, 0", id, flags, n)
	}
	if id, flags, n := used(1); id != 2 || flags != 0x8082 || n != 15 {
		t.Errorf("second: id %d, flags %#x, length %d, want 2, 0x8082, 15", id, flags, n)
	}
	// The ring has wrapped: both counters are 0 now.
	if base := dev.Base(); base != 0 {
		t.Errorf("base %#x, want 0", base)
	}
	a.setPacked(0, 0x100, 10, 0, 1<<15)
	if id, _, ok := takeOne(dev, pieces); !ok || id != 0 {
		t.Fatalf("took %d, %v in the second turn: %v", id, ok, dev.Err())
	}
	if base := dev.Base(); base != 1 {
		t.Errorf("base %#x, want 1 and 0", base)
	}
	dev.Complete([]Completion{{0, 1}})
	dev.Flush()
	if _, flags, _ := used(0); flags != DescWrite {
		t.Errorf("flags %#x in the second turn, want only that of writing", flags)
	}
}

func TestPackedBase(t *testing.T) {
	a := newArena(t, 8)
	for _, tt := range []struct {
		base uint32
		want uint32
		bad  bool
	}{
		{base: FreshPacked, want: FreshPacked},
		{base: 1 << 15, want: FreshPacked},
		{base: 2, want: 2 | 2<<16},
		{base: 5 | 0x8002<<16, want: 0x8002 | 0x8002<<16},
		{base: 3, bad: true},
		{base: 0x7fff << 16, bad: true},
	} {
		dev, err := NewPackedDevice(3, a.mem[:48], a.avail, a.used, tt.base, nil, DeviceOptions{})
		if tt.bad != (err != nil) || err == nil && dev.Base() != tt.want {
			t.Errorf("base %#x: %v, want %#x", tt.base, err, tt.want)
		}
	}
	for _, bad := range []struct {
		size                 int
		desc, driver, device []byte
	}{
		{0, a.mem, a.avail, a.used}, {32769, a.mem, a.avail, a.used}, {3, a.mem[:47], a.avail, a.used},
		{3, a.mem, a.avail[:3], a.used}, {3, a.mem, a.avail, a.used[:3]}, {3, a.mem[8:], a.avail, a.used}, {3, a.mem, a.avail[2:], a.used},
	} {
		if _, err := NewPackedDevice(bad.size, bad.desc, bad.driver, bad.device, FreshPacked, nil, DeviceOptions{}); err == nil {
			t.Errorf("size %d, areas of %d, %d and %d bytes: no error", bad.size, len(bad.desc), len(bad.driver), len(bad.device))
		}
	}
}

// A device that ends within a Flush, after any of its stores: its journal brings
// the ring to where the Flush would have.
func TestB29PackedFlushBreaksOff(t *testing.T) {
	for stored := range 4 {
		a, dev := packedArena(t, 4)
		for i := range 3 {
			a.setPacked(i, uint64(i), 10, uint16(i), available)
			takeOne(dev, make([]Piece, 1))
		}
		for i := range 3 {
			dev.Complete([]Completion{{uint16(i), uint32(100 + i)}})
		}
		if a.mem[8] != 10 || a.mem[14] != available {
			t.Fatal("the ring was written before Flush")
		}
		burst := slices.Clone(dev.burst)
		for _, i := range []int{1, 2, 0}[:stored] {
			a.setPacked(i, uint64(i), burst[i].Len, burst[i].ID, burst[i].Flags)
		}
		if stored == 3 { // the driver has used the place again
			a.setPacked(0, 7, 70, 3, 1<<15)
		}
		want := []uint16{0, 1, 2}
		if stored == 3 {
			want[0] = 3
		}
		if !RedoPacked(4, a.mem, burst) {
			t.Fatal("the burst was refused")
		}
		for i, id := range want {
			if got := binary.LittleEndian.Uint16(a.mem[i*DescSize+12:]); got != id {
				t.Errorf("after %d stores: descriptor %d has id %d, want %d", stored, i, got, id)
			}
		}
		if a.mem[8] != 100 && stored < 3 || a.mem[DescSize+8] != 101 {
			t.Errorf("after %d stores: lengths %d and %d", stored, a.mem[8], a.mem[DescSize+8])
		}
		burst[2].Offset = 4
		if RedoPacked(4, a.mem, burst) || RedoPacked(4, a.mem[:63], nil) || RedoPacked(0, a.mem, nil) {
			t.Error("a burst outside of the ring was written")
		}
	}
}

// Whatever lies in the areas, the device neither panics nor loops.
func TestB23PackedDeviceAnyMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "size")
		words := rapid.SliceOfN(rapid.Uint64Range(0, 200), 2*size+20, 2*size+20).Draw(t, "memory")
		mem := wordBytes(words)
		for i := range size {
			id := rapid.Uint32Range(0, uint32(size)).Draw(t, "id")
			flags := rapid.SampledFrom([]uint32{0, 1, 2, 3, 4, 5, 7}).Draw(t, "flags") | rapid.SampledFrom([]uint32{0x80, 0x80, 0x8000, 0x8080, 0}).Draw(t, "turn")
			binary.LittleEndian.PutUint32(mem[i*DescSize+12:], id|flags<<16)
		}
		translate := func(addr uint64, n uint32) ([]byte, bool) {
			if addr > uint64(len(mem)) || uint64(n) > uint64(len(mem))-addr {
				return nil, false
			}
			return mem[addr : addr+uint64(n)], true
		}
		event := mem[2*size*8:]
		dev, err := NewPackedDevice(size, mem[:size*DescSize], event[:4], event[8:12], FreshPacked, nil, DeviceOptions{Translate: translate, EventIdx: true})
		if err != nil {
			t.Skip(err)
		}
		pieces := make([]Piece, 2*size)
		for taken := 0; ; taken++ {
			id, n, ok := takeOne(dev, pieces)
			if !ok {
				break
			}
			if taken == size || int(id) >= size || n < 1 || n > len(pieces) {
				t.Fatalf("chain %d: id %d of %d pieces in a queue of %d", taken, id, n, size)
			}
			if rapid.Bool().Draw(t, "complete") {
				dev.Complete([]Completion{{id, 1}})
				dev.Flush()
				taken--
				if rapid.IntRange(0, 50).Draw(t, "enough") == 0 {
					break
				}
			}
		}
	})
}
