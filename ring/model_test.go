package ring

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// deviceModel is the device's side of a virtqueue on plain bytes, written from
// the specification and sharing no code with the driver's side.
type deviceModel interface {
	// take reads the next available chain.
	take() (modelChain, bool)
	// use reports chains, in this order; with batch only the last one is named.
	use(done []modelChain, batch bool)
	// suppress sets or clears "do not notify"; wantAt asks for a kick when the
	// position behind the next n chains of one descriptor is passed.
	suppress(on bool)
	wantNext()
}

// modelChain is a chain as the device sees it.
type modelChain struct {
	head  uint16
	slots int // descriptors of the ring
	segs  []Segment
	write bool
}

// lookup follows an indirect table: the test's memory is one slice that starts
// at the device address base.
type lookup func(addr uint64, n int) []byte

// splitModel is virtio 1.2, section 2.7.
type splitModel struct {
	size              int
	desc, avail, used []byte
	memory            lookup
	taken, put        uint16
}

func (m *splitModel) take() (modelChain, bool) {
	idx := binary.LittleEndian.Uint16(m.avail[2:])
	if idx == m.taken {
		return modelChain{}, false
	}
	head := binary.LittleEndian.Uint16(m.avail[4+2*(int(m.taken)%m.size):])
	m.taken++
	c := modelChain{head: head}
	table, id, indirect := m.desc, int(head), false
	for {
		d := table[16*id:]
		s := Segment{Addr: binary.LittleEndian.Uint64(d), Len: binary.LittleEndian.Uint32(d[8:])}
		flags, next := binary.LittleEndian.Uint16(d[12:]), binary.LittleEndian.Uint16(d[14:])
		if !indirect {
			c.slots++
		}
		if flags&4 != 0 {
			table, id, indirect = m.memory(s.Addr, int(s.Len)), 0, true
			continue
		}
		c.write = flags&2 != 0
		c.segs = append(c.segs, s)
		if flags&1 == 0 {
			return c, true
		}
		id = int(next)
	}
}

func (m *splitModel) use(done []modelChain, batch bool) {
	for i, c := range done {
		if batch && i > 0 {
			break
		}
		if batch {
			c = done[len(done)-1]
		}
		e := m.used[4+8*((int(m.put)+i)%m.size):]
		binary.LittleEndian.PutUint32(e, uint32(c.head))
		binary.LittleEndian.PutUint32(e[4:], uint32(c.head)+1000)
	}
	m.put += uint16(len(done))
	binary.LittleEndian.PutUint16(m.used[2:], m.put)
}

func (m *splitModel) suppress(on bool) {
	binary.LittleEndian.PutUint16(m.used, map[bool]uint16{true: 1}[on])
}

func (m *splitModel) wantNext() {
	binary.LittleEndian.PutUint16(m.used[4+8*m.size:], m.taken)
}

// packedModel is virtio 1.2, section 2.8.
type packedModel struct {
	size                 int
	desc, driver, device []byte
	memory               lookup
	next, put            int
	nextWrap, putWrap    bool
}

func (m *packedModel) take() (modelChain, bool) {
	var c modelChain
	for {
		d := m.desc[16*m.next:]
		flags := binary.LittleEndian.Uint16(d[14:])
		if avail, used := flags>>7&1 == 1, flags>>15&1 == 1; avail != m.nextWrap || used == m.nextWrap {
			return modelChain{}, false
		}
		s := Segment{Addr: binary.LittleEndian.Uint64(d), Len: binary.LittleEndian.Uint32(d[8:])}
		c.head = binary.LittleEndian.Uint16(d[12:]) // the last one counts
		c.slots++
		if m.next++; m.next == m.size {
			m.next, m.nextWrap = 0, !m.nextWrap
		}
		if flags&4 != 0 {
			for t := m.memory(s.Addr, int(s.Len)); len(t) > 0; t = t[16:] {
				c.segs = append(c.segs, Segment{Addr: binary.LittleEndian.Uint64(t), Len: binary.LittleEndian.Uint32(t[8:])})
			}
		} else {
			c.segs = append(c.segs, s)
			c.write = flags&2 != 0
		}
		if flags&1 == 0 {
			return c, true
		}
	}
}

func (m *packedModel) use(done []modelChain, batch bool) {
	if batch {
		m.write(done[len(done)-1].head)
		for _, c := range done {
			m.skip(c.slots)
		}
		return
	}
	for _, c := range done {
		m.write(c.head)
		m.skip(c.slots)
	}
}

func (m *packedModel) write(id uint16) {
	d := m.desc[16*m.put:]
	binary.LittleEndian.PutUint32(d[8:], uint32(id)+1000)
	binary.LittleEndian.PutUint16(d[12:], id)
	flags := uint16(0)
	if m.putWrap {
		flags = 1<<7 | 1<<15
	}
	binary.LittleEndian.PutUint16(d[14:], flags)
}

func (m *packedModel) skip(slots int) {
	if m.put += slots; m.put >= m.size {
		m.put, m.putWrap = m.put-m.size, !m.putWrap
	}
}

func (m *packedModel) suppress(on bool) {
	binary.LittleEndian.PutUint16(m.device[2:], map[bool]uint16{true: 1}[on])
}

func (m *packedModel) wantNext() {
	at := uint16(m.next)
	if m.nextWrap {
		at |= 1 << 15
	}
	binary.LittleEndian.PutUint16(m.device, at)
	binary.LittleEndian.PutUint16(m.device[2:], 2)
}

// modelRig is a ring with its model, and the bookkeeping of the obvious kind.
type modelRig struct {
	drv   Driver
	dev   deviceModel
	limit int
	opts  Options

	added  []modelChain // by the driver, not taken by the device
	owned  []modelChain // taken, not completed
	done   []modelChain // completed, not harvested
	free   int
	serial uint64
}

const modelBase = 0x10000

func newModelRig(t interface{ Fatal(...any) }, packed bool, size, limit int, opts Options, indirect bool) *modelRig {
	// Go aligns a large allocation to a page. One block holds all areas.
	tables := make([]byte, max(size*IndirectLen, 1<<15))
	if indirect {
		opts.Indirect, opts.IndirectIOVA = tables, modelBase
	}
	memory := func(addr uint64, n int) []byte { return tables[addr-modelBase:][:n] }
	rig := &modelRig{limit: limit, opts: opts, free: limit}
	if packed {
		l, err := NewPackedLayout(size)
		if err != nil {
			t.Fatal(err)
		}
		mem := make([]byte, max(l.Total, 1<<15))
		m := &packedModel{size: size, desc: mem[:l.DescLen()], driver: mem[l.DriverOff:][:4], device: mem[l.DeviceOff:][:4], memory: memory, nextWrap: true, putWrap: true}
		drv, err := NewPacked(size, limit, m.desc, m.driver, m.device, opts)
		if err != nil {
			t.Fatal(err)
		}
		rig.drv, rig.dev = drv, m
		return rig
	}
	l, err := NewSplitLayout(size)
	if err != nil {
		t.Fatal(err)
	}
	mem := make([]byte, max(l.Total, 1<<15))
	m := &splitModel{size: size, desc: mem[:l.DescLen()], avail: mem[l.AvailOff:][:l.AvailLen], used: mem[l.UsedOff:][:l.UsedLen], memory: memory}
	drv, err := NewSplit(size, limit, m.desc, m.avail, m.used, opts)
	if err != nil {
		t.Fatal(err)
	}
	rig.drv, rig.dev = drv, m
	return rig
}

// segments makes n distinct segments.
func (r *modelRig) segments(n int) []Segment {
	segs := make([]Segment, n)
	for i := range segs {
		r.serial++
		segs[i] = Segment{Addr: r.serial << 8, Len: uint32(r.serial)}
	}
	return segs
}

// step makes one random move and checks everything that can be checked.
func (r *modelRig) step(rng *rand.Rand) error {
	switch rng.IntN(4) {
	case 0:
		r.add(rng)
	case 1:
		return r.deviceTakes(rng)
	case 2:
		r.deviceUses(rng)
	case 3:
		return r.harvest(rng)
	}
	if r.drv.Free() != r.free {
		return fmt.Errorf("Free is %d, want %d", r.drv.Free(), r.free)
	}
	return r.drv.Err()
}

func (r *modelRig) add(rng *rand.Rand) {
	var heads [8]uint16
	if rng.IntN(2) == 0 {
		n := min(1+rng.IntN(8), r.free)
		segs := r.segments(n)
		r.drv.AddEach(segs, DescWrite, heads[:])
		for i := range n {
			r.added = append(r.added, modelChain{heads[i], 1, segs[i : i+1], true})
		}
		r.free -= n
	} else {
		var all []Segment
		var lengths []uint16
		var want []modelChain
		for range 1 + rng.IntN(3) {
			n := 1 + rng.IntN(5)
			if cost := r.drv.Cost(n); cost <= r.free {
				segs := r.segments(n)
				all = append(all, segs...)
				lengths = append(lengths, uint16(n))
				want = append(want, modelChain{0, cost, segs, false})
				r.free -= cost
			}
		}
		r.drv.AddChains(all, lengths, heads[:])
		for i := range want {
			want[i].head = heads[i]
		}
		r.added = append(r.added, want...)
	}
	r.drv.Publish()
}

func (r *modelRig) deviceTakes(rng *rand.Rand) error {
	for range 1 + rng.IntN(4) {
		c, ok := r.dev.take()
		if ok != (len(r.added) > 0) {
			return fmt.Errorf("the device finds a chain: %v, with %d added", ok, len(r.added))
		}
		if !ok {
			return nil
		}
		if want := r.added[0]; c.head != want.head || c.slots != want.slots || c.write != want.write || !slices.Equal(c.segs, want.segs) {
			return fmt.Errorf("the device takes %+v, want %+v", c, want)
		}
		r.added = r.added[1:]
		r.owned = append(r.owned, c)
	}
	return nil
}

func (r *modelRig) deviceUses(rng *rand.Rand) {
	if len(r.owned) == 0 {
		return
	}
	n := 1 + rng.IntN(len(r.owned))
	if !r.opts.InOrder {
		rng.Shuffle(len(r.owned), func(i, j int) { r.owned[i], r.owned[j] = r.owned[j], r.owned[i] })
	}
	used := slices.Clone(r.owned[:n])
	r.owned = slices.Delete(r.owned, 0, n)
	batch := r.opts.InOrder && rng.IntN(2) == 0
	r.dev.use(used, batch)
	for i, c := range used {
		c.segs = c.segs[:1]
		c.segs[0].Len = uint32(c.head) + 1000
		if batch && i < n-1 {
			c.segs[0].Len = 0 // not reported
		}
		r.done = append(r.done, c)
	}
}

func (r *modelRig) harvest(rng *rand.Rand) error {
	dst := make([]Completion, 1+rng.IntN(6))
	n := r.drv.Harvest(dst)
	if want := min(len(dst), len(r.done)); n != want {
		return fmt.Errorf("harvested %d, want %d: %v", n, want, r.drv.Err())
	}
	for i, c := range dst[:n] {
		want := r.done[i]
		if c.Head != want.head || want.segs[0].Len != 0 && c.Len != want.segs[0].Len {
			return fmt.Errorf("completion %+v, want head %d and %d bytes", c, want.head, want.segs[0].Len)
		}
		r.free += want.slots
	}
	r.done = r.done[n:]
	return nil
}

// TestRingsAgainstModels drives rings of all kinds through random steps, a
// million in all.
func TestRingsAgainstModels(t *testing.T) {
	const steps = 1_000_000
	kinds := []struct {
		packed            bool
		opts              Options
		indirect          bool
		size, limit, seed int
	}{
		{false, Options{}, false, 64, 64, 1}, {false, Options{}, true, 8, 8, 2}, {false, Options{InOrder: true}, false, 32, 32, 3},
		{false, Options{InOrder: true}, true, 16, 11, 4}, {false, Options{EventIdx: true}, false, 1, 1, 5}, {false, Options{}, false, 128, 100, 6},
		{true, Options{}, false, 64, 64, 7}, {true, Options{}, true, 8, 8, 8}, {true, Options{InOrder: true}, false, 33, 33, 9},
		{true, Options{InOrder: true}, true, 17, 11, 10}, {true, Options{EventIdx: true}, false, 1, 1, 11}, {true, Options{}, false, 100, 77, 12},
	}
	for _, k := range kinds {
		t.Run(fmt.Sprintf("packed=%v/%+v/indirect=%v/%d of %d", k.packed, k.opts, k.indirect, k.limit, k.size), func(t *testing.T) {
			r := newModelRig(t, k.packed, k.size, k.limit, k.opts, k.indirect)
			rng := rand.New(rand.NewPCG(uint64(k.seed), 1))
			for i := range steps / len(kinds) {
				if err := r.step(rng); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
		})
	}
}

// TestB13PackedSizes wraps rings of odd sizes.
func TestB13PackedSizes(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5, 7, 100, 255, 257, 1000, 32767, 32768} {
		r := newModelRig(t, true, size, size, Options{}, false)
		rng := rand.New(rand.NewPCG(uint64(size), 2))
		for i := range max(20*size, 2000) {
			if err := r.step(rng); err != nil {
				t.Fatalf("size %d, step %d: %v", size, i, err)
			}
		}
	}
	for _, size := range []int{-1, 0, 32769, 65536} {
		if _, err := NewPackedLayout(size); err == nil {
			t.Errorf("size %d was accepted", size)
		}
	}
}

// TestB15BatchesOfTheSpecification completes 200 chains with used entries only
// for numbers 7, 8, 63 and 199.
func TestB15BatchesOfTheSpecification(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, length := range []int{1, 3} {
			t.Run(fmt.Sprintf("packed=%v/chains of %d", packed, length), func(t *testing.T) {
				r := newModelRig(t, packed, 1024, 1024, Options{InOrder: true}, false)
				for round := range 400 { // past the wrap of the 16-bit index
					var heads [200]uint16
					var chains []modelChain
					for i := range 200 {
						segs := r.segments(length)
						r.drv.AddChains(segs, []uint16{uint16(length)}, heads[i:])
					}
					r.drv.Publish()
					for range 200 {
						c, ok := r.dev.take()
						if !ok {
							t.Fatal("a chain is missing")
						}
						chains = append(chains, c)
					}
					from := 0
					for _, last := range []int{7, 8, 63, 199} {
						r.dev.use(chains[from:last+1], true)
						var dst [200]Completion
						if n := r.drv.Harvest(dst[:]); n != last+1-from {
							t.Fatalf("round %d: entry for %d frees %d chains, want %d: %v", round, last, n, last+1-from, r.drv.Err())
						}
						for i, c := range dst[:last+1-from] {
							if c.Head != heads[from+i] {
								t.Fatalf("chain %d has head %d, want %d", from+i, c.Head, heads[from+i])
							}
						}
						from = last + 1
					}
				}
			})
		}
	}
}

// TestB19RestOfABatchIsNotSleptOver takes one completion of a batch of three,
// which the device reports by the last one.
func TestB19RestOfABatchIsNotSleptOver(t *testing.T) {
	for _, packed := range []bool{false, true} {
		r := newModelRig(t, packed, 16, 16, Options{InOrder: true}, false)
		var heads [4]uint16
		r.drv.AddEach(r.segments(4), 0, heads[:])
		r.drv.Publish()
		r.dev.use([]modelChain{{head: heads[0], slots: 1}, {head: heads[1], slots: 1}, {head: heads[2], slots: 1}}, true)
		var dst [1]Completion
		for left := 2; left >= 0; left-- {
			if n := r.drv.Harvest(dst[:]); n != 1 {
				t.Fatalf("packed=%v: harvested %d: %v", packed, n, r.drv.Err())
			}
			if armed := r.drv.Arm(); armed != (left == 0) {
				t.Errorf("packed=%v: armed: %v, with %d to harvest", packed, armed, left)
			}
		}
	}
}

// TestB15BadBatchFreesNothing names a chain that is not the device's.
func TestB15BadBatchFreesNothing(t *testing.T) {
	for _, packed := range []bool{false, true} {
		r := newModelRig(t, packed, 16, 16, Options{InOrder: true}, false)
		var heads [4]uint16
		r.drv.AddEach(r.segments(4), 0, heads[:])
		r.drv.Publish()
		r.dev.use([]modelChain{{head: heads[0], slots: 1}, {head: 9, slots: 1}}, true)
		var dst [8]Completion
		if n := r.drv.Harvest(dst[:]); n != 0 || r.drv.Err() == nil || r.drv.Free() != 12 {
			t.Errorf("packed=%v: harvested %d, %d free, error %v", packed, n, r.drv.Free(), r.drv.Err())
		}
	}
}

// TestB14IndirectAndDirectChains checks what stands in the ring.
func TestB14IndirectAndDirectChains(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, n := range []int{1, 2, IndirectEntries, IndirectEntries + 1} {
			for _, indirect := range []bool{false, true} {
				r := newModelRig(t, packed, 64, 64, Options{}, indirect)
				for range 50 { // across the end of the ring
					want := n
					if indirect && n > 1 && n <= IndirectEntries {
						want = 1
					}
					if got := r.drv.Cost(n); got != want {
						t.Fatalf("Cost(%d) is %d, want %d", n, got, want)
					}
					var head [1]uint16
					segs := r.segments(n)
					r.drv.AddChains(segs, []uint16{uint16(n)}, head[:])
					r.drv.Publish()
					c, ok := r.dev.take()
					if !ok || c.head != head[0] || c.slots != want || !slices.Equal(c.segs, segs) {
						t.Fatalf("packed=%v indirect=%v: the device takes %+v", packed, indirect, c)
					}
					r.dev.use([]modelChain{c}, false)
					var dst [1]Completion
					if r.drv.Harvest(dst[:]) != 1 || dst[0].Head != head[0] {
						t.Fatalf("completion %+v: %v", dst[0], r.drv.Err())
					}
				}
			}
		}
	}
	// One slot left is enough for an indirect chain.
	r := newModelRig(t, true, 4, 4, Options{}, true)
	var heads [4]uint16
	r.drv.AddEach(r.segments(3), 0, heads[:])
	if r.drv.Cost(4) > r.drv.Free() {
		t.Error("an indirect chain of 4 does not fit into one free descriptor")
	}
}

// TestKickSuppression compares NeedKick with the rules, flags and events, over
// the wraps of index and ring.
func TestKickSuppression(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, size := range []int{4, 8} {
			for _, eventIdx := range []bool{false, true} {
				r := newModelRig(t, packed, size, size, Options{EventIdx: eventIdx}, false)
				for round := 1; round < 70000; round++ {
					if !eventIdx {
						r.dev.suppress(round%3 == 0)
					} else if round%3 != 0 {
						r.dev.wantNext()
					}
					n := 1 + round%size
					var heads [8]uint16
					r.drv.AddEach(r.segments(n), 0, heads[:])
					r.drv.Publish()
					if got, want := r.drv.NeedKick(), round%3 != 0; got != want {
						t.Fatalf("packed=%v size=%d event_idx=%v round %d: NeedKick is %v", packed, size, eventIdx, round, got)
					}
					for range n {
						c, ok := r.dev.take()
						if !ok {
							t.Fatal("a chain is missing")
						}
						r.dev.use([]modelChain{c}, false)
					}
					var dst [8]Completion
					if got := r.drv.Harvest(dst[:]); got != n {
						t.Fatalf("harvested %d of %d: %v", got, n, r.drv.Err())
					}
				}
			}
		}
	}
}

func TestNeedEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := rapid.Uint16().Draw(t, "old")
		moved := rapid.Uint16Range(0, 1000).Draw(t, "moved")
		event := old + rapid.Uint16().Draw(t, "event")
		// The event is passed when it is one of the moved positions.
		want := false
		for i := range moved {
			want = want || old+i == event
		}
		if got := needEvent(event, old+moved, old); got != want {
			t.Fatalf("event %d, from %d to %d: %v", event, old, old+moved, got)
		}
	})
}

// FuzzPackedUsed lets a device write what it likes into a packed ring.
func FuzzPackedUsed(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0x80, 0x80}, false)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, true)
	f.Fuzz(func(t *testing.T, ring []byte, inOrder bool) {
		r := newModelRig(t, true, 7, 7, Options{InOrder: inOrder}, false)
		owned := map[uint16]bool{}
		var heads [5]uint16
		r.drv.AddEach(r.segments(5), DescWrite, heads[:])
		r.drv.Publish()
		for _, h := range heads {
			owned[h] = true
		}
		copy(r.dev.(*packedModel).desc, ring)
		var dst [16]Completion
		for n := r.drv.Harvest(dst[:]); n > 0; n = r.drv.Harvest(dst[:]) {
			for _, c := range dst[:n] {
				if !owned[c.Head] {
					t.Fatalf("head %d was harvested but not the device's", c.Head)
				}
				delete(owned, c.Head)
			}
		}
		if len(owned)+r.drv.Free() != 7 {
			t.Fatalf("%d owned and %d free of 7 descriptors", len(owned), r.drv.Free())
		}
	})
}
