package vhost

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

const plain = virtio.Version1 | virtio.NetMAC | virtio.NetStatus

func newLoop(tb testing.TB, cfg LoopbackConfig) *Loopback {
	tb.Helper()
	cfg.Log = logTo(tb)
	l, err := StartLoopback(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	return l
}

func loopRig(tb testing.TB, cfg LoopbackConfig) (*rig, *Loopback) {
	tb.Helper()
	l := newLoop(tb, cfg)
	f, err := l.Dial(FrontendConfig{Queues: max(cfg.Pairs, 1), QueueSize: rigSize, Log: logTo(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	return newRig(tb, f, max(cfg.Pairs, 1)), l
}

func TestLoopbackReturnsFrames(t *testing.T) {
	for _, tt := range []struct {
		name     string
		features virtio.Features
	}{
		{"legacy header", 0},
		{"plain", plain},
		{"mergeable", plain | virtio.NetMrgRxbuf},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, l := loopRig(t, LoopbackConfig{})
			r.start(tt.features, 1)
			for i := range 1000 {
				frame := frameOf(i, 60+i)
				if !r.send(0, virtio.NetHeader{}, frame) {
					t.Fatalf("no room for frame %d", i)
				}
				h, got := r.receive(0)
				if !bytes.Equal(got, frame) || h.Flags != 0 || h.GSOType != 0 {
					t.Fatalf("frame %d: header %+v, %x\nwant %x", i, h, got, frame)
				}
			}
			if s := l.Stats(); s.Frames != 1000 || s.Dropped != 0 {
				t.Errorf("stats %+v, want 1000 frames and none dropped", s)
			}
		})
	}
}

// The same connection, negotiated again and again with other features.
func TestRenegotiation(t *testing.T) {
	r, _ := loopRig(t, LoopbackConfig{})
	fds := 0
	for i := range 100 {
		features := plain
		if i%2 == 1 {
			features |= virtio.NetMrgRxbuf | virtio.NetCSUM
		}
		r.start(features, 1)
		if i == 1 {
			fds = countFDs(t)
		}
		frame := frameOf(i, 100)
		r.send(0, virtio.NetHeader{}, frame)
		if _, got := r.receive(0); !bytes.Equal(got, frame) {
			t.Fatalf("round %d: got %x", i, got)
		}
	}
	if n := countFDs(t); n != fds {
		t.Errorf("%d open descriptors, %d after the second start", n, fds)
	}
	if n := countMappings(t); n != 2 {
		t.Errorf("%d mappings of the memory, want the driver's and the device's", n)
	}
}

// The rings go on, after a stop, where they were: nothing is lost, nothing
// comes twice.
func TestB28RingsGoOnAfterAStop(t *testing.T) {
	r, _ := loopRig(t, LoopbackConfig{})
	r.start(plain, 1)
	const frames = 1000
	number := 0
	move := func() {
		for range frames {
			r.send(0, virtio.NetHeader{}, frameOf(number, 60))
			if _, got := r.receive(0); !bytes.Equal(got, frameOf(number, 60)) {
				t.Fatalf("frame %d: got %x", number, got)
			}
			number++
		}
	}
	move()
	for round := range 3 {
		status, err := r.negotiate(plain)
		r.must(err)
		base := uint16((round + 1) * frames)
		r.must(r.setup(0, base))
		r.must(r.setup(1, base))
		r.must(r.f.SetStatus(status | virtio.StatusDriverOK))
		move()
	}
}

// Memory on hugepages, where there are some.
func TestDefaultMemory(t *testing.T) {
	l := newLoop(t, LoopbackConfig{})
	f, err := l.Dial(FrontendConfig{QueueSize: rigSize})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pages of %d bytes", mem.PageSize())
	r := newRigOn(t, f, 1, mem)
	r.start(plain, 1)
	r.send(0, virtio.NetHeader{}, frameOf(1, 100))
	if _, got := r.receive(0); !bytes.Equal(got, frameOf(1, 100)) {
		t.Errorf("got %x", got)
	}
}

func TestB17QueuePairsEnabled(t *testing.T) {
	r, _ := loopRig(t, LoopbackConfig{Pairs: 4})
	r.start(plain, 3)
	for _, n := range []int{3, 1, 4, 2} {
		r.must(r.f.EnablePairs(n))
		for i := range n {
			frame := frameOf(i, 64)
			r.send(i, virtio.NetHeader{}, frame)
			if _, got := r.receive(i); !bytes.Equal(got, frame) {
				t.Errorf("%d pairs: pair %d returned %x", n, i, got)
			}
		}
	}
	if err := r.f.EnablePairs(5); err == nil {
		t.Error("EnablePairs(5) of 4 succeeded")
	}
	if err := r.f.EnablePairs(0); err == nil {
		t.Error("EnablePairs(0) succeeded")
	}
}

// A disabled pair keeps what was sent, and moves it when enabled again.
func TestDisabledPairIsQuiet(t *testing.T) {
	r, _ := loopRig(t, LoopbackConfig{Pairs: 2})
	r.start(plain, 1)
	frame := frameOf(1, 64)
	r.send(1, virtio.NetHeader{}, frame)
	r.send(0, virtio.NetHeader{}, frame)
	r.receive(0)
	if _, _, ok := r.poll(1); ok {
		t.Error("a frame came through a disabled pair")
	}
	r.must(r.f.EnablePairs(2))
	if _, got := r.receive(1); !bytes.Equal(got, frame) {
		t.Errorf("after enabling: %x", got)
	}
}

func TestLoopbackChecksums(t *testing.T) {
	// UDP over IPv4, 3 bytes of payload; the checksum field holds the sum of
	// the pseudo header: 0a00+0001+0a00+0002+0011+000b = 0x141f.
	frame := make([]byte, 14+20+8+3)
	copy(frame[12:], []byte{0x08, 0x00, 0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
	copy(frame[34:], []byte{0x10, 0x00, 0x20, 0x00, 0, 11, 0x14, 0x1f, 0xaa, 0xbb, 0xcc})
	h := virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 6}
	// 141f + 1000+2000+000b + aabb + cc00 = 0x1bae5 -> 0xbae6 -> ~ = 0x4519
	const sum = 0x4519

	for _, tt := range []struct {
		name     string
		features virtio.Features
	}{
		{"filled in", plain | virtio.NetCSUM},
		{"passed on", plain | virtio.NetCSUM | virtio.NetGuestCSUM},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, l := loopRig(t, LoopbackConfig{})
			r.start(tt.features, 1)
			r.send(0, h, frame)
			got, back := r.receive(0)
			if tt.features.Has(virtio.NetGuestCSUM) {
				if got.Flags != virtio.HdrNeedsCSum || got.CSumStart != 34 || got.CSumOffset != 6 || !bytes.Equal(back, frame) {
					t.Errorf("header %+v, frame %x", got, back)
				}
			} else if got.Flags != 0 || back[40] != sum>>8 || back[41] != sum&0xff {
				t.Errorf("header %+v, checksum %x, want %x", got, back[40:42], sum)
			}
			bad := h
			bad.CSumStart, bad.CSumOffset = 0xffff, 0xffff
			r.send(0, bad, frame)
			r.send(0, virtio.NetHeader{}, frame)
			if got, _ := r.receive(0); got.Flags != 0 {
				t.Errorf("header %+v of the frame behind a bad one", got)
			}
			if s := l.Stats(); s.Dropped != 1 {
				t.Errorf("%d dropped, want the one with its checksum outside", s.Dropped)
			}
		})
	}
}

func TestLoopbackSegmentation(t *testing.T) {
	frame := frameOf(7, 1800)
	h := virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 16, GSOType: virtio.GSOTCPv4, GSOSize: 500, HdrLen: 54}
	tso := plain | virtio.NetCSUM | virtio.NetHostTSO4
	for _, tt := range []struct {
		name     string
		features virtio.Features
		gso      uint8
	}{
		{"driver takes large frames", tso | virtio.NetGuestCSUM | virtio.NetGuestTSO4, virtio.GSOTCPv4},
		{"driver takes them for IPv6 only", tso | virtio.NetGuestCSUM | virtio.NetGuestTSO6, virtio.GSONone},
		{"driver takes none", tso, virtio.GSONone},
	} {
		r, _ := loopRig(t, LoopbackConfig{})
		r.start(tt.features, 1)
		r.send(0, h, frame)
		got, back := r.receive(0)
		if got.GSOType != tt.gso || len(back) != len(frame) {
			t.Errorf("%s: header %+v, %d bytes", tt.name, got, len(back))
		}
		if tt.gso != 0 && (got.GSOSize != 500 || got.HdrLen != 54) {
			t.Errorf("%s: header %+v", tt.name, got)
		}
	}
}

// A driver that does not receive can still transmit.
func TestLoopbackDropsUnwanted(t *testing.T) {
	r, l := loopRig(t, LoopbackConfig{})
	r.start(plain, 1)
	frame := frameOf(0, 64)
	eventually(t, "200 frames sent without receiving", func() bool {
		for r.send(0, virtio.NetHeader{}, frame) {
		}
		s := l.Stats()
		return s.Frames+s.Dropped >= 200
	})
	eventually(t, "everything sent is back or dropped", func() bool {
		for range rigSize {
			r.poll(0)
		}
		p := &r.pairs[0]
		p.tx.harvest(p.done[:])
		return p.tx.room() == rigSize && p.rx.(*rawRing).pending() == 0
	})
	r.send(0, virtio.NetHeader{}, frameOf(1, 64))
	if _, got := r.receive(0); !bytes.Equal(got, frameOf(1, 64)) {
		t.Errorf("got %x", got)
	}
}

func TestMergeableSpreadsFrames(t *testing.T) {
	b, f := listenAndDial(t, BackendConfig{}, FrontendConfig{QueueSize: rigSize})
	r := newRig(t, f, 1)
	r.start(plain|virtio.NetMrgRxbuf, 1)
	for i, n := range []int{60, 2036, 2037, 9000, 65000} {
		want := frameOf(i, n)
		if got := b.RxQueue(0).Enqueue([]Frame{{Data: want}}); got != 1 {
			t.Fatalf("%d bytes: Enqueue = %d", n, got)
		}
		h, frame := r.receive(0)
		if buffers := (n + 12 + rigBufSize - 1) / rigBufSize; int(h.NumBuffers) != buffers {
			t.Errorf("%d bytes in %d buffers, want %d", n, h.NumBuffers, buffers)
		}
		if !bytes.Equal(frame, want) {
			t.Errorf("%d bytes came back as %d others", n, len(frame))
		}
	}
	// More than the driver has, and then more than it could ever have.
	r.pairs[0].rx.harvest(r.pairs[0].done[:])
	if got := b.RxQueue(0).Enqueue([]Frame{{Data: make([]byte, 65*rigBufSize)}, {Data: frameOf(9, 60)}}); got != 2 {
		t.Errorf("Enqueue = %d, want the long frame dropped and the other taken", got)
	}
	if _, frame := r.receive(0); !bytes.Equal(frame, frameOf(9, 60)) {
		t.Errorf("got %x", frame)
	}
	if s := b.RxQueue(0).Stats(); s.Dropped != 1 || s.Frames != 6 {
		t.Errorf("stats %+v, want 6 frames and 1 dropped", s)
	}
}

// A host that sleeps between bursts: it is woken by kicks, and by nothing else
// once the driver was told not to.
func TestBackendSleepsUntilKicked(t *testing.T) {
	b, f := listenAndDial(t, BackendConfig{}, FrontendConfig{QueueSize: rigSize})
	r := newRig(t, f, 1)
	r.start(plain, 1)
	tx, frames := b.TxQueue(0), []Frame{{Data: make([]byte, 0, 2048)}}
	forget := func() {
		time.Sleep(20 * time.Millisecond)
		select {
		case <-b.Kicked():
		default:
		}
	}
	for i := range 100 {
		tx.SetNotify(true)
		if tx.Pending() == 0 {
			r.send(0, virtio.NetHeader{}, frameOf(i, 60))
			for tx.Pending() == 0 {
				<-b.Kicked()
			}
		}
		if n := tx.Dequeue(frames); n != 1 || !bytes.Equal(frames[0].Data, frameOf(i, 60)) {
			t.Fatalf("frame %d: %d frames, %x", i, n, frames[0].Data)
		}
	}
	tx.SetNotify(false)
	forget()
	r.send(0, virtio.NetHeader{}, frameOf(0, 60))
	time.Sleep(20 * time.Millisecond)
	select {
	case <-b.Kicked():
		t.Error("kicked though the driver was told not to")
	default:
	}
}

// A driver that asks for interrupts gets one for a burst.
func TestInterrupts(t *testing.T) {
	b, f := listenAndDial(t, BackendConfig{}, FrontendConfig{QueueSize: rigSize})
	r := newRig(t, f, 1)
	r.start(plain, 1)
	calls := func() byte {
		var count [8]byte
		unix.Read(int(f.rings[0].call.Load().FD()), count[:])
		return count[0]
	}
	burst := []Frame{{Data: frameOf(0, 60)}, {Data: frameOf(1, 60)}}
	b.RxQueue(0).Enqueue(burst)
	if n := calls(); n != 0 {
		t.Errorf("%d interrupts while they are off", n)
	}
	r.pairs[0].rx.arm()
	b.RxQueue(0).Enqueue(burst)
	if n := calls(); n != 1 {
		t.Errorf("%d interrupts for one burst, want 1", n)
	}
	b.RxQueue(0).Enqueue(nil)
	if n := calls(); n != 0 {
		t.Errorf("%d interrupts for no frames", n)
	}
}

func TestQueueWithoutMergeableBuffers(t *testing.T) {
	b, f := listenAndDial(t, BackendConfig{}, FrontendConfig{QueueSize: rigSize})
	r := newRig(t, f, 1)
	r.start(plain|virtio.NetCSUM, 1)
	q := b.RxQueue(0)
	frames := []Frame{{Data: frameOf(0, 2037)}}
	for i := range rigSize + 1 {
		frames = append(frames, Frame{Data: frameOf(i, 60)})
	}
	if got := q.Enqueue(frames); got != rigSize+1 {
		t.Errorf("Enqueue = %d, want one too long and %d into the buffers", got, rigSize)
	}
	if s := q.Stats(); s.Dropped != 1 || s.Frames != rigSize {
		t.Errorf("stats %+v", s)
	}
	h, frame := r.receive(0)
	if h.NumBuffers != 1 || !bytes.Equal(frame, frameOf(0, 60)) {
		t.Errorf("header %+v, frame %x", h, frame)
	}

	r.send(0, virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 14, CSumOffset: 2}, frameOf(5, 100))
	r.send(0, virtio.NetHeader{}, frameOf(6, 101))
	r.send(0, virtio.NetHeader{}, frameOf(7, 99))
	in := []Frame{{Data: make([]byte, 0, 100)}, {Data: make([]byte, 0, 100)}, {Data: make([]byte, 0, 100)}}
	if n := b.TxQueue(0).Dequeue(in); n != 2 {
		t.Fatalf("Dequeue = %d, want 2: one is too long", n)
	}
	if in[0].Header.CSumStart != 14 || !bytes.Equal(in[0].Data, frameOf(5, 100)) || !bytes.Equal(in[1].Data, frameOf(7, 99)) {
		t.Errorf("dequeued %+v", in[:2])
	}
}

func listenAndDial(tb testing.TB, bc BackendConfig, fc FrontendConfig) (*Backend, *Frontend) {
	tb.Helper()
	path := socketPath(tb)
	bc.Log, fc.Log = logTo(tb), logTo(tb)
	b, err := Listen(path, bc)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { b.Close() })
	f, err := Dial(path, fc)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	return b, f
}

func TestDisconnect(t *testing.T) {
	b, f := listenAndDial(t, BackendConfig{}, FrontendConfig{QueueSize: rigSize})
	r := newRig(t, f, 1)
	changed := make(chan struct{}, 1)
	f.Watch(func() { changed <- struct{}{} })
	r.start(plain, 1)
	link := func() uint16 {
		var b [2]byte
		r.must(f.ReadConfig(virtio.ConfigStatus, b[:]))
		return uint16(b[0])
	}
	if link() != virtio.NetStatusLinkUp {
		t.Error("link is down while connected")
	}
	b.Close()
	select {
	case <-changed:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was told")
	}
	if link() != 0 {
		t.Error("link is up after the back end has gone")
	}
	_, statusErr := f.Status()
	_, featuresErr := f.Features()
	_, setupErr := f.SetupQueue(port.QueueSetup{})
	for what, err := range map[string]error{
		"SetupQueue": setupErr, "SetStatus": f.SetStatus(virtio.StatusAcknowledge), "Status": statusErr,
		"Features": featuresErr, "SetFeatures": f.SetFeatures(0), "EnablePairs": f.EnablePairs(1), "WriteConfig": f.WriteConfig(0, make([]byte, 6)),
	} {
		if !errors.Is(err, ErrDisconnected) {
			t.Errorf("%s: %v, want ErrDisconnected", what, err)
		}
	}
	r.send(0, virtio.NetHeader{}, frameOf(0, 60)) // a kick that nobody hears
	if err := f.Reset(time.Second); err != nil {
		t.Errorf("Reset: %v, want none: nobody uses the memory", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	f.Watch(func() { t.Error("told after Close") })
}

// Front ends come and go, politely or not; each finds a working device.
func TestBackendServesNext(t *testing.T) {
	path := socketPath(t)
	newLoop(t, LoopbackConfig{Path: path})
	fds, maps := countFDs(t), countMappings(t)
	for i := range 20 {
		f, err := Dial(path, FrontendConfig{QueueSize: rigSize})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, f, 1)
		r.start(plain, 1)
		frame := frameOf(i, 80)
		r.send(0, virtio.NetHeader{}, frame)
		if _, got := r.receive(0); !bytes.Equal(got, frame) {
			t.Fatalf("front end %d: got %x", i, got)
		}
		if i%2 == 0 {
			f.peer.channel.conn.sock.Close()
		}
		f.Close()
		r.mem.Close()
	}
	eventually(t, "descriptors and mappings given back", func() bool {
		return countFDs(t) == fds && countMappings(t) == maps
	})
}

func TestB20DescriptorsOfFailedDial(t *testing.T) {
	l := newLoop(t, LoopbackConfig{})
	fds := countFDs(t)
	failed := 0
	for spare := 1; ; spare++ {
		restore := limitFDs(t, spare)
		f, err := l.Dial(FrontendConfig{})
		restore()
		if err == nil {
			f.Close()
			break
		}
		if failed++; failed > 20 {
			t.Fatal(err)
		}
		eventually(t, "descriptors given back", func() bool { return countFDs(t) == fds })
	}
	if failed < 4 {
		t.Errorf("%d failures: too few descriptors were not too few", failed)
	}
	eventually(t, "descriptors given back", func() bool { return countFDs(t) == fds })
	if _, err := l.Dial(FrontendConfig{Queues: 2}); err == nil {
		t.Error("two queue pairs of a device with one")
	}
}

// With standard input closed, 0 is a descriptor like any other.
func TestB20DescriptorZero(t *testing.T) {
	saved, err := unix.Dup(0)
	if err != nil {
		t.Skip("there is no standard input to put aside")
	}
	unix.Close(0)
	defer func() {
		unix.Dup2(saved, 0)
		unix.Close(saved)
	}()
	isOpen := func() bool {
		_, err := unix.FcntlInt(0, unix.F_GETFD, 0)
		return err == nil
	}
	l := newLoop(t, LoopbackConfig{})
	f, err := l.Dial(FrontendConfig{QueueSize: rigSize})
	if err != nil {
		t.Fatal(err)
	}
	if !isOpen() {
		t.Error("descriptor 0 is not in use: the test shows nothing")
	}
	r := newRig(t, f, 1)
	r.start(plain, 1)
	r.send(0, virtio.NetHeader{}, frameOf(1, 60))
	r.receive(0)
	f.Close()
	r.mem.Close()
	l.Close()
	if isOpen() {
		t.Error("descriptor 0 is still open after Close")
	}
}

func TestLoopbackTakesOneFrontEnd(t *testing.T) {
	l := newLoop(t, LoopbackConfig{})
	l.backend.cfg.Timeout = 50 * time.Millisecond
	f, err := l.Dial(FrontendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Dial(FrontendConfig{}); err == nil {
		t.Error("a second front end at the same time")
	}
	f.Close()
	l.Close()
	if _, err := l.Dial(FrontendConfig{}); err == nil {
		t.Error("a front end of a closed device")
	}
}
