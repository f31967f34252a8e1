package vhost

import (
	"testing"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// direct is a session whose messages come from the test, without a socket, and
// a small driver on the guest's memory. The front end's addresses are this
// process's; the guest's begin at directGuest.
type direct struct {
	tb    testing.TB
	b     *Backend
	s     *session
	mem   *mbuf.Memory
	all   mbuf.Region
	areas [2]mbuf.Zone
	kinds virtio.Features
	rings [2]rigRing
	done  [rigSize]rawDone
}

const directGuest = 0x4000_0000

func newDirect(tb testing.TB, cfg BackendConfig) *direct {
	tb.Helper()
	cfg.Packed, cfg.Log = true, logTo(tb)
	d := &direct{tb: tb}
	var err error
	if d.b, err = newBackend(cfg); err != nil {
		tb.Fatal(err)
	}
	if d.mem, err = mbuf.NewMemory(mbuf.MemoryConfig{Size: 1 << 20, NoHuge: true}); err != nil {
		tb.Fatal(err)
	}
	d.all = d.mem.Regions()[0]
	for i := range d.areas {
		d.areas[i] = d.alloc(16384)
	}
	d.s = newSession(d.b, nil)
	tb.Cleanup(func() {
		d.s.end()
		d.mem.Close()
	})
	return d
}

func (d *direct) alloc(n int) mbuf.Zone {
	d.tb.Helper()
	z, err := d.mem.Alloc(n, 4096)
	if err != nil {
		d.tb.Fatal(err)
	}
	return z
}

// guest is the guest-physical address of a zone.
func (d *direct) guest(z mbuf.Zone) uint64 { return directGuest + uint64(z.Addr()-d.all.Addr()) }

// say has the session handle a message, as if it had come with copies of fds.
func (d *direct) say(m message, fds ...int) error {
	var copies []int
	for _, fd := range fds {
		copied, err := unix.Dup(fd)
		if err != nil {
			d.tb.Fatal(err)
		}
		copies = append(copies, copied)
	}
	a, err := d.s.handle(m, copies)
	closeFDs(copies)
	if a != nil {
		closeFDs(a.fds)
	}
	if err == nil {
		err = d.s.startReady()
	}
	return err
}

func (d *direct) must(err error) {
	d.tb.Helper()
	if err != nil {
		d.tb.Fatal(err)
	}
}

// share tells of the memory.
func (d *direct) share() {
	d.tb.Helper()
	r := wireRegion(d.all)
	r.guest = directGuest
	d.must(d.say(message{request: setMemTable, table: []memRegion{r}}, d.all.FD))
}

// start sets both rings up. Behind an IOMMU the device's addresses are the
// guest's.
func (d *direct) start(features virtio.Features) {
	d.tb.Helper()
	d.kinds = features
	d.must(d.say(message{request: setFeatures, u64: uint64(features | virtio.Version1 | virtio.VhostUserProtocolFeatures)}))
	for i := range d.rings {
		d.setup(uint32(i))
	}
}

func (d *direct) setup(index uint32) {
	d.tb.Helper()
	z := d.areas[index]
	clear(z.Bytes)
	l, _ := ring.NewSplitLayout(rigSize)
	q := port.QueueSetup{Size: rigSize, Desc: z.Slice(0, l.DescLen()), Avail: z.Slice(4096, l.AvailLen), Used: z.Slice(8192, l.UsedLen)}
	var base uint32
	if d.kinds.Has(virtio.RingPacked) {
		q.Avail, q.Used, base = z.Slice(4096, ring.EventLen), z.Slice(8192, ring.EventLen), ring.FreshPacked
	}
	var err error
	d.rings[index], err = newRigRing(q, d.kinds)
	d.must(err)
	d.must(d.say(message{request: setVringNum, state: vringState{index, rigSize}}))
	d.must(d.say(message{request: setVringBase, state: vringState{index, base}}))
	d.must(d.say(message{request: setVringAddr, addr: d.addr(index, 0)}))
	d.must(d.say(message{request: setVringKick, u64: vringNoFD | uint64(index)}))
	d.must(d.say(message{request: setVringEnable, state: vringState{index, 1}}))
}

// addr says where a ring is; it is logged where it is.
func (d *direct) addr(index, flags uint32) vringAddr {
	z := d.areas[index]
	at := uint64(z.Addr())
	if d.kinds.Has(virtio.AccessPlatform) {
		at = d.guest(z)
	}
	return vringAddr{index: index, flags: flags, desc: at, avail: at + 4096, used: at + 8192, log: d.guest(z) + 8192}
}

// offer makes one buffer of n bytes available, off bytes into z.
func (d *direct) offer(index int, z mbuf.Zone, off, n int, flags uint16) {
	d.rings[index].add(d.guest(z)+uint64(off), uint32(n), flags)
	d.rings[index].publish()
}

// enqueue sends a frame to the driver, and reports whether it was taken.
func (d *direct) enqueue(frame []byte) bool {
	return d.b.RxQueue(0).Enqueue([]Frame{{Data: frame}}) == 1
}

// dequeue takes a frame of the driver's, if there is one.
func (d *direct) dequeue() ([]byte, bool) {
	frames := []Frame{{Data: make([]byte, 0, 4096)}}
	n := d.b.TxQueue(0).Dequeue(frames)
	return frames[0].Data, n == 1
}

func (d *direct) running(index int) bool { return d.b.queues[index].Running() }
