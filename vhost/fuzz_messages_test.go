package vhost

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/virtio"
)

// wildFrontend sends what a script says to a device that runs.
type wildFrontend struct {
	*rawGuest
	s     script
	files []int // of every kind, to be sent
	short bool  // the memory file was shortened; nobody may touch it here
}

// wildFiles are memory files of several sizes, eventfds, and what is neither.
func wildFiles(tb testing.TB) []int {
	tb.Helper()
	var pipe [2]int
	unix.Pipe2(pipe[:], unix.O_CLOEXEC)
	pair, _ := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	epoll, _ := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	null, _ := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	dir, _ := unix.Open(os.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	self, _ := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	event, _ := unix.Eventfd(0, unix.EFD_CLOEXEC)
	full, _ := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	unix.Write(full, []byte("\xfe\xff\xff\xff\xff\xff\xff\xff")) // as much as there can be
	opened := []int{pipe[0], pipe[1], pair[0], pair[1], epoll, null, dir, self, event, full}
	tb.Cleanup(func() { closeFDs(opened) })
	return append(opened, memfd(tb, 0), memfd(tb, 100), memfd(tb, 4096), memfd(tb, 1<<16))
}

// knownRequests are the requests by their numbers, and one that nobody knows.
func knownRequests() []request {
	known := []request{99}
	for r := range requests {
		known = append(known, r)
	}
	slices.Sort(known)
	return known
}

// number is a number of a message: small, of a feature set, or any.
func (g *wildFrontend) number() uint64 {
	switch g.s.pick(4) {
	case 0:
		return g.s.u64()
	case 1:
		return uint64(g.features)
	case 2:
		return vringNoFD | uint64(g.s.pick(4))
	default:
		return uint64(g.s.pick(4))
	}
}

// region is a region of the guest's memory, or nearly one.
func (g *wildFrontend) region() memRegion {
	r := memRegion{guest: rawDeviceBase, user: rawUserBase, size: rawMemory}
	for _, field := range []*uint64{&r.guest, &r.user, &r.size, &r.offset} {
		switch g.s.pick(8) {
		case 0:
			*field = g.s.u64()
		case 1:
			*field += uint64(g.s.u16()) << 12
		case 2:
			*field -= uint64(g.s.u16())
		}
	}
	return r
}

// message is one with the body that belongs to it.
func (g *wildFrontend) message(known []request) message {
	m := message{request: known[g.s.pick(len(known))]}
	switch g.s.pick(8) {
	case 0:
		m.flags = flagReply
	case 1, 2:
		m.flags = flagNeedReply
	}
	switch m.body() {
	case payloadU64:
		m.u64 = g.number()
	case payloadState:
		m.state = vringState{uint32(g.number()), g.s.u32()}
	case payloadAddr:
		m.addr = vringAddr{index: uint32(g.number())}
		for _, field := range []*uint64{&m.addr.desc, &m.addr.avail, &m.addr.used} {
			*field = rawUserBase + uint64(g.s.u32())
		}
	case payloadTable:
		for range g.s.pick(10) {
			m.table = append(m.table, g.region())
		}
	case payloadRegion:
		m.table = []memRegion{g.region()}
	case payloadConfig:
		m.config = configSpace{offset: uint32(g.number()), bytes: g.s.bytes(g.s.pick(64))}
	case payloadInflight:
		m.inflight = inflightArea{size: uint64(g.s.u32()), offset: g.number(), queues: g.s.u16(), queueSize: g.s.u16()}
	}
	return m
}

// rights are the descriptors that go with m: those that belong there, or any.
func (g *wildFrontend) rights(m message) (fds []int) {
	if g.s.flip() {
		for range g.s.pick(12) {
			fds = append(fds, g.files[g.s.pick(len(g.files))])
		}
		return fds
	}
	_, most := expectedFDs(m)
	for range most {
		switch m.request {
		case setMemTable, addMemReg, setInflightFD:
			fds = append(fds, g.file)
		case setBackendReqFD:
			fds = append(fds, g.files[2])
		default:
			fds = append(fds, g.files[8])
		}
	}
	return fds
}

// act does one thing that the script says.
func (g *wildFrontend) act(known []request) {
	switch g.s.pick(9) {
	case 0, 1, 2, 3:
		m := g.message(known)
		g.tell(m, g.rights(m)...)
	case 4:
		raw := g.s.bytes(g.s.pick(64))
		if g.s.flip() && len(raw) >= headerSize {
			raw[4], raw[5], raw[6], raw[7] = byte(flagVersion), 0, 0, 0
			raw[8], raw[9], raw[10], raw[11] = byte(len(raw)-headerSize), 0, 0, 0
		}
		if len(raw) > 0 {
			g.conn.write(raw, g.rights(message{})) // it may fail: the connection may be gone
		}
	case 5:
		g.serveTraffic()
	case 6:
		if at, b := int(g.s.u16()), g.s.bytes(1+g.s.pick(16)); !g.short {
			copy(g.mem[at:], b)
		}
	case 7:
		g.short = true
		g.shorten(int64(g.s.pick(64)) << 12)
	case 8: // its descriptors are the back end's, in all but the number
		unix.SetNonblock(g.files[g.s.pick(len(g.files))], false)
	}
}

// serveTraffic starts rings as a well-behaved front end does, with frames in
// them.
func (g *wildFrontend) serveTraffic() {
	if g.short {
		return
	}
	g.share()
	g.place()
	for i := range 8 {
		g.offer(rawBuffers+i*4096, 2048)
		g.send(rawBuffers+i*4096+2048, frameOf(i, 200))
	}
	g.kick()
}

// checkFrame says that the device returns a frame to a front end that has just
// connected.
func (g *wildFrontend) checkFrame() {
	g.serveTraffic()
	for limit := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		if frame, ok := g.receive(); ok {
			if !bytes.Equal(frame, frameOf(0, 200)) {
				g.tb.Fatalf("the next front end received %x", frame)
			}
			return
		}
		if time.Now().After(limit) {
			g.tb.Fatal("the next front end got nothing back")
		}
	}
}

// The front end is the attacker: whatever it says to a device that runs, with
// whatever descriptors, nothing panics, hangs or stays open, and the next front
// end is served.
func FuzzBackendMessages(f *testing.F) {
	known := knownRequests()
	f.Add([]byte{})
	for i := range known {
		for kind := range byte(4) {
			// The message with what belongs to it, before and behind traffic; and
			// with one eventfd too many, to be acknowledged.
			f.Add([]byte{kind, 0, byte(i), 3, 3, 1, 3, 0, 0, 0, 0, 0, 5, 0, byte(i), 3, 3, 0, 3, 0, 0, 0, 0, 0, 0, 5})
			f.Add([]byte{kind, 5, 0, byte(i), 1, 3, 0, 1, 2, 8, 8, 5, 4, 20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 7, 3, 5})
		}
	}
	for kind := range byte(4) {
		f.Add([]byte{kind, 5, 7, 0, 5})                               // memory that goes away
		f.Add([]byte{kind, 5, 7, 17})                                 // the buffers only
		f.Add([]byte{kind, 5, 6, 2, 0xa0, 3, 255, 255, 255, 255, 6})  // an index that jumps
		f.Add([]byte{kind, 5, 6, 0, 0x80, 15, 1, 2, 3, 4, 5, 6, 7})   // a descriptor of nonsense
		f.Add([]byte{kind, 4, 12, 5, 0, 0, 0, 1, 0, 0, 0, 255, 0, 1}) // a message that never ends
	}
	kick := byte(slices.Index(known, setVringKick))
	f.Add([]byte{0, 5, 0, kick, 3, 3, 0, 0, 8, 8}) // a kick descriptor that is made to block
	device, err := StartLoopback(LoopbackConfig{Packed: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { device.Close() })
	files := wildFiles(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 4096 {
			return
		}
		defer watchdog()()
		g := &wildFrontend{s: script{input}, files: files}
		features := virtio.Version1
		if kind := g.s.u8(); kind&1 != 0 {
			features |= virtio.RingPacked
		} else if kind&2 != 0 {
			features |= virtio.NetMrgRxbuf | virtio.VhostUserProtocolFeatures
		}
		g.rawGuest = newRawGuest(t, nil, features)
		next := &wildFrontend{rawGuest: newRawGuest(t, nil, features&^virtio.VhostUserProtocolFeatures)}
		// The device takes a front end when it has let go of the one before.
		idle := rawPeer(t, device.backend)
		if !alive(idle) {
			t.Fatal("the device does not answer")
		}
		fds, maps, goroutines := countFDs(t), countMappings(t), runtime.NumGoroutine()
		idle.sock.Close()

		g.conn, g.careless = rawPeer(t, device.backend), true
		var reading sync.WaitGroup
		reading.Go(func() { drain(g.conn.sock) })
		for !g.s.done() {
			g.act(known)
		}
		g.conn.sock.Close()
		reading.Wait()

		next.conn = rawPeer(t, device.backend)
		if !alive(next.conn) {
			t.Fatal("the device does not answer the next front end")
		}
		if n := countFDs(t); n != fds {
			t.Fatalf("%d descriptors are open, %d were before", n, fds)
		}
		if n := countMappings(t); n != maps {
			t.Fatalf("%d files are mapped, %d were before", n, maps)
		}
		eventually(t, "the end of goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
		next.checkFrame()
		next.conn.sock.Close()
	})
}
