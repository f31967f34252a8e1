package vhost

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// wildGuest writes its rings as a script says, and looks for bytes that the
// back end has read or written outside of the memory that it was given.
type wildGuest struct {
	t       *testing.T
	s       script
	session *session
	arena   *arena
	size    int // descriptors of a queue

	features virtio.Features
	next     [2]uint16 // what the guest makes available next: an index, or an offset
	wrap     [2]bool   // the wrap counters of a packed ring

	frames []Frame
	packet []*mbuf.Buf
	held   []*mbuf.Buf // received, and not freed yet
	short  bool        // part of the file is not there: nobody may read a frame
	rx     *portRx
	tx     *portTx
	loop   loopPair
	pool   *mbuf.Pool
}

// arena is the file that all memory of the wild guests is in: regions, and
// canaries before, between and behind them. It is made once for all inputs.
type arena struct {
	file   int
	mem    []byte
	canary []byte // 16 bytes that no script can know
	sock   *conn
}

const arenaSize = 16 << 12

// wildRegions are the regions that are shared. The first holds the rings. The
// second and the third touch in the guest's address space and not in the file,
// and the last ends where addresses do.
var wildRegions = []memRegion{
	{guest: 0x10000, user: 0x10000, size: 0x3000, offset: 0x1000},
	{guest: 0x40010, user: 0x40010, size: 0x1800, offset: 0x5010},
	{guest: 0x41810, user: 0x41810, size: 0x1000, offset: 0x8000},
	{guest: math.MaxUint64 - 0x1000, user: math.MaxUint64 - 0x1000, size: 0x1000, offset: 0xb000},
}

// Where the areas of a ring are in the first region; the second ring follows at
// wildRing. Buffers of well-behaved guests are behind both.
const (
	wildAvail   = 0x400
	wildUsed    = 0x500
	wildRing    = 0x800
	wildBuffers = 0x1000
	wildMaxSize = 64
)

func newArena(tb testing.TB) *arena {
	tb.Helper()
	a := &arena{file: memfd(tb, arenaSize), canary: make([]byte, 16)}
	rand.Read(a.canary)
	var err error
	if a.mem, err = unix.Mmap(a.file, 0, arenaSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		tb.Fatal(err)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		tb.Fatal(err)
	}
	a.sock = &conn{sock: ours, timeout: time.Second}
	tb.Cleanup(func() {
		unix.Munmap(a.mem)
		ours.Close()
		theirs.Close()
	})
	return a
}

// clear empties the regions and fills everything around them with canaries.
func (a *arena) clear() {
	for i := 0; i < arenaSize; i += len(a.canary) {
		copy(a.mem[i:], a.canary)
	}
	for _, r := range wildRegions {
		clear(a.mem[r.offset:][:r.size])
	}
}

// intact reports whether all canaries are alive.
func (a *arena) intact() bool {
	at := uint64(0)
	for _, r := range append(slices.Clone(wildRegions), memRegion{offset: arenaSize}) {
		for ; at < r.offset; at += uint64(len(a.canary)) {
			if !bytes.Equal(a.mem[at:][:len(a.canary)], a.canary) {
				return false
			}
		}
		at = r.offset + r.size
	}
	return true
}

// region is the guest's memory of region i.
func (a *arena) region(i int) []byte { return a.mem[wildRegions[i].offset:][:wildRegions[i].size] }

// obey has the session do what m asks; it may refuse.
func (g *wildGuest) obey(m message, fds ...int) *answer {
	a, _ := g.session.obey(m, slices.Clone(fds))
	if a != nil {
		closeFDs(a.fds)
	}
	return a
}

// share gives the back end all regions.
func (g *wildGuest) share() {
	g.obey(message{request: setMemTable, table: wildRegions}, slices.Repeat([]int{g.arena.file}, len(wildRegions))...)
}

// startRing starts ring i at a base.
func (g *wildGuest) startRing(i, size int, base uint32) {
	user := wildRegions[0].user + uint64(i*wildRing)
	g.obey(message{request: setVringNum, state: vringState{uint32(i), uint32(size)}})
	g.obey(message{request: setVringBase, state: vringState{uint32(i), base}})
	g.obey(message{request: setVringAddr, addr: vringAddr{index: uint32(i), desc: user, avail: user + wildAvail, used: user + wildUsed}})
	g.obey(message{request: setVringKick, u64: vringNoFD | uint64(i)})
}

// stopRing stops ring i and gives its base.
func (g *wildGuest) stopRing(i int) uint32 {
	return g.obey(message{request: getVringBase, state: vringState{index: uint32(i)}}).state.num
}

func (g *wildGuest) packed() bool { return g.features.Has(virtio.RingPacked) }

// address is a device address: in a region, across its end, or anywhere.
func (g *wildGuest) address() uint64 {
	r := wildRegions[g.s.pick(len(wildRegions))]
	switch g.s.pick(8) {
	case 0:
		return g.s.u64()
	case 1:
		return r.guest - uint64(g.s.u8())
	case 2:
		return r.guest + r.size - uint64(g.s.u8())
	default:
		return r.guest + uint64(g.s.u16())%r.size
	}
}

func (g *wildGuest) length() uint32 {
	switch g.s.pick(8) {
	case 0:
		return g.s.u32()
	case 1:
		return math.MaxUint32 - uint32(g.s.u8())
	case 2:
		return uint32(g.s.u16())
	case 3:
		return uint32(g.s.u8()) * ring.DescSize // a table
	default:
		return uint32(g.s.u8())
	}
}

// descriptor writes a descriptor, which for a packed ring needs its turn in the
// flags, to b.
func (g *wildGuest) descriptor(b []byte, turn uint16) {
	le := binary.LittleEndian
	le.PutUint64(b, g.address())
	le.PutUint32(b[8:], g.length())
	flags, number := uint16(g.s.u8()&7)|turn, g.s.u16()%(2*wildMaxSize)
	if g.packed() {
		le.PutUint16(b[12:], number)
		le.PutUint16(b[14:], flags)
	} else {
		le.PutUint16(b[12:], flags)
		le.PutUint16(b[14:], number)
	}
}

// add makes a chain of n descriptors available, the way a driver would.
func (g *wildGuest) add(i, n int) {
	areas := g.arena.region(0)[i*wildRing:]
	le := binary.LittleEndian
	if !g.packed() {
		head := g.s.pick(g.size)
		for d := range n {
			g.descriptor(areas[(head+d)%g.size*ring.DescSize:], 0)
		}
		le.PutUint16(areas[wildAvail+4+2*(int(g.next[i])%g.size):], uint16(head))
		g.next[i]++
		le.PutUint16(areas[wildAvail+2:], g.next[i])
		return
	}
	for range n {
		turn := uint16(1 << 15)
		if g.wrap[i] {
			turn = 1 << 7
		}
		g.descriptor(areas[int(g.next[i])*ring.DescSize:], turn)
		if g.next[i]++; int(g.next[i]) == g.size {
			g.next[i], g.wrap[i] = 0, !g.wrap[i]
		}
	}
}

// act does one thing that the script says.
func (g *wildGuest) act() {
	i := g.s.pick(2)
	switch g.s.pick(12) {
	case 0, 1, 2:
		g.add(i, 1+g.s.pick(4))
	case 3: // a table of indirect descriptors
		table := g.arena.region(g.s.pick(3))
		for at, n := int(g.s.u16())%len(table), g.s.pick(8); n > 0 && at+ring.DescSize <= len(table); n-- {
			g.descriptor(table[at:], 0)
			at += ring.DescSize
		}
	case 4: // anything, anywhere
		region := g.arena.region(g.s.pick(len(wildRegions)))
		copy(region[int(g.s.u16())%len(region):], g.s.bytes(1+g.s.pick(16)))
	case 5: // an index that jumps
		binary.LittleEndian.PutUint16(g.arena.region(0)[i*wildRing+wildAvail+2*g.s.pick(3):], g.s.u16())
	case 6, 7:
		g.take(1 + g.s.pick(80))
	case 8:
		g.give(1 + g.s.pick(40))
	case 9:
		g.loop.rx.SetNotify(g.s.flip())
		g.loop.tx.SetNotify(g.s.flip())
		if n := g.loop.tx.Pending(); n < 0 || n > g.size {
			g.t.Fatalf("%d chains are pending in a ring of %d", n, g.size)
		}
	case 10:
		g.free() // a ring waits for its frames when it stops
		base := g.stopRing(i)
		if g.s.flip() {
			base = g.s.u32()
		}
		g.startRing(i, g.size, base)
	case 11:
		g.changeMemory()
	}
}

// changeMemory takes a region away or adds it, or shortens the file for a
// moment.
func (g *wildGuest) changeMemory() {
	g.free()
	region := wildRegions[g.s.pick(len(wildRegions))]
	switch g.s.pick(3) {
	case 0:
		g.obey(message{request: remMemReg, table: []memRegion{region}})
	case 1:
		g.obey(message{request: addMemReg, table: []memRegion{region}}, g.arena.file)
	case 2:
		was := bytes.Clone(g.arena.mem)
		unix.Ftruncate(g.arena.file, int64(region.offset)&^4095+int64(g.s.pick(3))<<12)
		g.short = true
		g.take(4)
		g.give(4)
		g.short = false
		unix.Ftruncate(g.arena.file, arenaSize)
		copy(g.arena.mem, was)
	}
}

// take has the back end take up to n frames.
func (g *wildGuest) take(n int) {
	how := g.s.pick(3)
	if g.loop.tx.lends != lendNone {
		how = 1 // only a port can have lent frames
	}
	switch how {
	case 0:
		for _, f := range g.frames[:g.loop.tx.Dequeue(g.frames[:n])] {
			g.check(f.Data)
		}
	case 1:
		bufs := g.packet[:g.rx.Burst(g.packet[:n])]
		for _, b := range bufs {
			if !g.short {
				g.check(bytesOf(b))
			}
			g.held = append(g.held, b)
		}
		if g.s.flip() {
			g.free()
		}
	case 2:
		g.loop.bounce()
	}
}

// free frees the frames that were received, the last one first.
func (g *wildGuest) free() {
	for _, b := range slices.Backward(g.held) {
		b.Free()
	}
	g.held = g.held[:0]
}

// check says that a frame holds nothing but the guest's own.
func (g *wildGuest) check(frame []byte) {
	if len(frame) == 0 || len(frame) > maxFrame {
		g.t.Fatalf("a frame of %d bytes", len(frame))
	}
	// Part of a canary is enough, at any place of it.
	for at := range len(g.arena.canary) {
		part := append(slices.Clone(g.arena.canary[at:]), g.arena.canary[:at]...)[:8]
		if bytes.Contains(frame, part) {
			g.t.Fatal("a frame holds bytes of memory that is not shared")
		}
	}
}

// give sends up to n frames to the guest, which may be much too long for it.
func (g *wildGuest) give(n int) {
	size := 14 + int(g.s.u16())%9000
	if g.s.flip() {
		frames := slices.Repeat([]Frame{{Data: make([]byte, size)}}, n)
		if taken := g.loop.rx.Enqueue(frames); taken > n {
			g.t.Fatalf("%d frames of %d were taken", taken, n)
		}
		return
	}
	for i := range n {
		g.packet[i] = packetOf(g.t, g.pool, make([]byte, size), 1500)
		g.packet[i].Flags |= mbuf.Flags(g.s.u8()) << 16 // requests
		g.packet[i].SegSize = 1000
	}
	for _, b := range g.packet[g.tx.Burst(g.packet[:n]):n] {
		b.Free()
	}
}

// silent says that a queue whose driver broke a rule does nothing any more.
func (g *wildGuest) silent() {
	for range 2 { // the first burst may still say what came before
		was := bytes.Clone(g.arena.mem)
		tx, rx := g.loop.tx.Err() != nil, g.loop.rx.Err() != nil
		if n := g.rx.Burst(g.packet[:8]); tx && n != 0 {
			g.t.Fatalf("a broken queue gives %d frames", n)
		} else {
			g.held = append(g.held, g.packet[:n]...)
		}
		g.free()
		if n := g.loop.rx.Enqueue([]Frame{{Data: make([]byte, 60)}}); rx && n != 0 {
			g.t.Fatalf("a broken queue takes %d frames", n)
		}
		if tx && rx && !bytes.Equal(was, g.arena.mem) {
			g.t.Fatal("broken queues write to the guest's memory")
		}
	}
}

// recover starts the rings as a well-behaved guest does, and moves a frame
// through both.
func (g *wildGuest) recover() {
	g.stopRing(0)
	g.stopRing(1)
	g.arena.clear()
	g.share()
	var rings [2]rigRing
	for i := range rings {
		zone := mbuf.Zone{Bytes: g.arena.region(0)[i*wildRing:]}
		q := port.QueueSetup{Size: rigSize, Desc: zone.Slice(0, wildAvail), Avail: zone.Slice(wildAvail, wildUsed-wildAvail), Used: zone.Slice(wildUsed, wildRing-wildUsed)}
		var err error
		if rings[i], err = newRigRing(q, g.features); err != nil {
			g.t.Fatal(err)
		}
		base := uint32(0)
		if g.packed() {
			base = ring.FreshPacked
		}
		g.startRing(i, rigSize, base)
	}
	rx, tx := rings[0], rings[1]
	header, addr := virtio.HeaderSize(g.features), wildRegions[0].guest+wildBuffers
	buffers := g.arena.region(0)[wildBuffers:]
	want := frameOf(7, 100)
	copy(buffers[header:], want)
	tx.add(addr, uint32(header+len(want)), 0)
	tx.publish()
	rx.add(addr+0x1000, 0x800, ring.DescWrite)
	rx.publish()
	if n := g.loop.tx.Dequeue(g.frames[:2]); n != 1 || !bytes.Equal(g.frames[0].Data, want) {
		g.t.Fatalf("after a restart %d frames came, not 1, with %x; %v", n, g.frames[0].Data, g.loop.tx.Err())
	}
	if n := g.loop.rx.Enqueue(g.frames[:1]); n != 1 || !bytes.Equal(buffers[0x1000+header:][:len(want)], want) {
		g.t.Fatalf("after a restart %d frames went, not 1; %v", n, g.loop.rx.Err())
	}
	var done [2]rawDone
	if rx.harvest(done[:]) != 1 || done[0].len != uint32(header+len(want)) || tx.harvest(done[:]) != 1 {
		g.t.Fatal("after a restart the rings say something else")
	}
}

// wildSeeds are scripts of a guest that keeps to the rules, and breaks one in the
// end.
func wildSeeds(packed bool) []string {
	const (
		read  = "\x00\x05\x00\x10\x04\x40\x00\x00\x00" // 64 bytes of the first region
		next  = "\x00\x05\x40\x10\x04\x40\x01\x06\x00" // the same, with another behind it
		write = "\x01\x05\x00\x02\x04\xff\x02\x00\x00"
		table = "\x02\x05\x00\x00\x03\x02\x04\x00\x00"
		long  = "\x00\x05\x00\x10\x02\x00\x08\x00\x00\x00" // 2 KiB
		take  = "\x01\x06\x10"
		give  = "\x00\x08\x02\x20\x00"
		again = "\x00\x0a\x00" + "\x01\x0a\x00"
		less  = "\x01\x0b\x01\x00" + "\x01\x0b\x01\x02" + "\x01\x0b\x00\x02"
	)
	size := ""
	if packed {
		size = "\x00"
	}
	add := func(queue, descs string) string {
		head := "\x05"
		if packed {
			head = ""
		}
		return queue + "\x00" + string(rune(len(descs)/len(read)-1)) + head + descs
	}
	const rx, tx = "\x00", "\x01"
	entries := tx + "\x03\x02\x00\x00\x02" + next + read
	return []string{
		size + add(tx, read) + add(tx, read) + take + "\x00" + add(tx, read) + take + "\x01" + add(tx, read) + take + "\x02",
		size + add(tx, next+read) + take + "\x00" + add(tx, next+next+next+read) + take + "\x01",
		size + add(rx, write) + add(rx, write) + add(rx, write) + give + "\x01" + give + "\x00\x00\x00\x00",
		size + entries + add(tx, table) + take + "\x01" + again + add(tx, read) + take + "\x00",
		size + add(rx, write) + add(tx, read) + less + take + "\x00" + give + "\x01",
		size + add(tx, long) + add(tx, long) + take + "\x01\x00" + add(tx, long) + take + "\x01\x01" + again + add(tx, long) + take + "\x01\x00",
		size + add(tx, long) + take + "\x01\x00" + less + add(tx, long) + take + "\x00",
		size + add(tx, read) + tx + "\x05\x01\xff\xff" + take + "\x00",
	}
}

// The guest is the attacker: whatever it writes to its rings, nothing panics,
// nothing that it has not shared is read or written, no buffer is lost, a broken
// queue is silent, and the next start of the rings works.
func FuzzDeviceRings(f *testing.F) {
	f.Add([]byte{})
	for _, kind := range []byte{0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x18, 0x19, 0x26, 0x27, 0x80, 0x81, 0xff} {
		for _, acts := range wildSeeds(kind&1 != 0) {
			f.Add(append([]byte{kind, 6}, acts...))
		}
	}
	arena, pool := newArena(f), newPool(f)
	frames := make([]Frame, 128)
	for i := range frames {
		frames[i].Data = make([]byte, 0, 4096)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 4096 {
			return
		}
		defer watchdog()()
		whole := pool.Free() // without what an input before this one has lost
		g := &wildGuest{t: t, s: script{input}, arena: arena, frames: frames, packet: make([]*mbuf.Buf, 128), pool: pool}
		kind := g.s.u8()
		g.features = virtio.Version1
		for i, feature := range []virtio.Features{
			virtio.RingPacked, virtio.NetMrgRxbuf, virtio.EventIdx, virtio.NetCSUM | virtio.NetHostTSO4 | virtio.NetHostTSO6,
			virtio.NetGuestCSUM | virtio.NetGuestTSO4, virtio.IndirectDesc, virtio.InOrder,
		} {
			if kind>>i&1 != 0 {
				g.features |= feature
			}
		}
		g.size = 1 << g.s.pick(7)
		if g.packed() {
			g.size = min(g.size+g.s.pick(5), wildMaxSize)
		}
		b, err := newBackend(BackendConfig{Packed: true})
		if err != nil {
			t.Fatal(err)
		}
		g.session = newSession(b, arena.sock)
		g.loop = loopPair{rx: b.RxQueue(0), tx: b.TxQueue(0)}
		g.loop.tx.lends = lendPolicy(kind >> 7 * 2)
		g.rx, g.tx = &portRx{dev: g.loop.tx, backend: &Backend{}}, &portTx{dev: g.loop.rx}
		conf := port.Config{Pool: pool, RxOffloads: port.RxVLANStrip | port.RxTCPCksum | port.RxTCPLRO, TxOffloads: port.TxVLANInsert | port.TxTCPCksum | port.TxTCPTSO}
		g.rx.start(&conf, nil)
		g.tx.start(&conf)

		arena.clear()
		g.obey(message{request: setFeatures, u64: uint64(g.features)})
		g.share()
		base := uint32(0)
		if g.packed() {
			base, g.wrap = ring.FreshPacked, [2]bool{true, true}
		}
		for i := range 2 {
			g.startRing(i, g.size, base)
		}
		for !g.s.done() {
			g.act()
		}
		g.free()
		g.silent()
		if !arena.intact() {
			t.Fatal("memory that is not shared was written to")
		}
		g.rx.release()
		g.tx.release()
		g.recover()
		g.session.end()
		if left := pool.Free(); left != whole {
			t.Errorf("%d of %d buffers are back in the pool", left, whole)
		}
	})
}
