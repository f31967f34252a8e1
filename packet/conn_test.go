package packet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/adapters/packetsource"
	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/packet"
	"vionet/port"
	"vionet/port/ringport"
	"vionet/ring"
	"vionet/virtio"
)

func TestFramesGoThrough(t *testing.T) {
	near, far := pair(t)
	for _, f := range [][]byte{frame(14, ""), frame(60, "good morning"), frame(1514, "a full one")} {
		write(t, near, f)
		got, from := read(t, far)
		if got != string(f) {
			t.Errorf("%q was read, want %q", got, f)
		}
		if from.Network() != "ethernet" || from.String() != "02:00:00:00:00:01" {
			t.Errorf("it came from %v of %s", from, from.Network())
		}
	}
	write(t, far, frame(60, "and back"))
	if got, _ := read(t, near); got != string(frame(60, "and back")) {
		t.Errorf("%q came back", got)
	}
	mac, ok := near.LocalAddr().(*packet.Addr)
	if !ok || len(mac.HardwareAddr) != 6 || near.LocalAddr().String() == far.LocalAddr().String() {
		t.Errorf("the addresses are %v and %v", near.LocalAddr(), far.LocalAddr())
	}
}

// The rest of a frame that is longer than the buffer is lost, as with any
// net.PacketConn; ReadBatch tells.
func TestShortBuffer(t *testing.T) {
	near, far := pair(t)
	for range 2 {
		write(t, near, frame(200, "long"))
		write(t, near, frame(20, "next"))
	}
	buf := make([]byte, 50)
	if n, _, err := far.ReadFrom(buf); n != 50 || err != nil || !bytes.Equal(buf, frame(200, "long")[:50]) {
		t.Errorf("%d bytes %q, %v", n, buf, err)
	}
	if got, _ := read(t, far); got != string(frame(20, "next")) {
		t.Errorf("the next frame is %q", got)
	}
	ms := []packet.Message{{Buffers: [][]byte{make([]byte, 14), nil, make([]byte, 10)}}, {Buffers: [][]byte{make([]byte, 20)}}}
	if n, err := far.ReadBatch(ms, 0); n != 2 || err != nil {
		t.Fatalf("%d messages, %v", n, err)
	}
	if ms[0].N != 24 || ms[0].Flags != unix.MSG_TRUNC || string(ms[0].Buffers[2]) != "long\x00\x00\x00\x00\x00\x00" {
		t.Errorf("the first message is %+v", ms[0])
	}
	if ms[1].N != 20 || ms[1].Flags != 0 || ms[1].Addr.String() != "02:00:00:00:00:01" {
		t.Errorf("the second message is %+v", ms[1])
	}
}

func TestFrameSizes(t *testing.T) {
	near, far := pair(t)
	if near.MTU() != 1500 {
		t.Fatalf("MTU %d", near.MTU())
	}
	tag := func(f []byte, etherType uint16) []byte {
		binary.BigEndian.PutUint16(f[12:], etherType)
		return f
	}
	for name, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"empty":                     {nil, port.ErrInvalid},
		"half a header":             {frame(64, "")[:13], port.ErrInvalid},
		"the MTU":                   {frame(1514, ""), nil},
		"more than the MTU":         {frame(1515, ""), unix.EMSGSIZE},
		"the MTU and a tag":         {tag(frame(1518, ""), 0x8100), nil},
		"the MTU and a 802.1ad tag": {tag(frame(1518, ""), 0x88a8), nil},
		"more than that":            {tag(frame(1519, ""), 0x8100), unix.EMSGSIZE},
		"far too large":             {frame(1<<20, ""), unix.EMSGSIZE},
	} {
		n, err := near.WriteTo(c.frame, nil)
		var op *net.OpError
		if !errors.Is(err, c.want) || err != nil && !errors.As(err, &op) {
			t.Errorf("%s: %d, %v, want %v", name, n, err, c.want)
		}
		if err == nil {
			if got, _ := read(t, far); got != string(c.frame) {
				t.Errorf("%s: %d bytes were read", name, len(got))
			}
		}
	}
	ms := []packet.Message{{Buffers: [][]byte{frame(60, "good")}}, {Buffers: [][]byte{nil}}, {Buffers: [][]byte{frame(60, "")}}}
	if n, err := near.WriteBatch(ms, 0); n != 1 || err != nil || ms[0].N != 60 {
		t.Errorf("%d frames before a bad one were written, N %d, %v", n, ms[0].N, err)
	}
	if n, err := near.WriteBatch(ms[1:], 0); n != 0 || !errors.Is(err, port.ErrInvalid) {
		t.Errorf("a batch that begins with a bad frame: %d, %v", n, err)
	}
	if _, err := near.WriteBatch(ms[:1], unix.MSG_OOB); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("unknown flags: %v", err)
	}
}

// A large MTU takes buffers that hold it.
func TestLargeMTU(t *testing.T) {
	p, err := port.NewNull(port.NullConfig{NoRx: true})
	if err != nil {
		t.Fatal(err)
	}
	c := listen(t, p, packet.Config{MTU: 9000})
	write(t, c, frame(9014, ""))
	if _, err := c.WriteTo(frame(9015, ""), nil); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("a byte too much: %v", err)
	}
}

func TestRefusedConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		dev  fakedev.Config
		cfg  packet.Config
		want error
	}{
		"negative spin":    {fakedev.Config{}, packet.Config{Spin: -1}, port.ErrInvalid},
		"spin and poll":    {fakedev.Config{}, packet.Config{Spin: 1, Poll: true}, port.ErrInvalid},
		"an MTU too large": {fakedev.Config{MTU: 1500}, packet.Config{MTU: 9000}, port.ErrInvalid},
		"no interrupts":    {fakedev.Config{NoInterrupts: true}, packet.Config{}, port.ErrNotSupported},
	} {
		p, err := driver.Open(fakedev.New(c.dev), driver.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var op *net.OpError
		if _, err := packet.Listen(p, c.cfg); !errors.Is(err, c.want) || !errors.As(err, &op) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err := p.Start(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the port was not closed: %v", name, err)
		}
	}
}

// Over the virtio driver a write waits while the device has no room: until it has
// sent, or the deadline.
func TestWriteWaitsForRoom(t *testing.T) {
	for name, cfg := range map[string]packet.Config{"asleep": {}, "polling": {Poll: true}} {
		dev, c := fake(t, fakedev.Config{QueueSize: 64}, cfg)
		f := frame(60, "one of many")
		ms := make([]packet.Message, 100)
		for i := range ms {
			ms[i].Buffers = [][]byte{f[:20], f[20:]}
		}
		sent := 0
		for {
			n, err := c.WriteBatch(ms, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			sent += n
		}
		if sent != 64 {
			t.Errorf("%s: a ring of 64 took %d frames", name, sent)
		}
		c.SetWriteDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.WriteTo(f, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a write to a full ring: %v", name, err)
		}
		c.SetWriteDeadline(soon())
		done := make(chan error)
		go func() {
			_, err := c.WriteTo(f, nil)
			done <- err
		}()
		frames, err := dev.Sent(0) // the last one, too, if it comes in time
		if err != nil || len(frames) < 64 || !bytes.Equal(frames[63].Data, f) {
			t.Errorf("%s: the device sent %d frames, %v", name, len(frames), err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: the write went on with %v", name, err)
		}
		more, err := dev.Sent(0)
		if got := len(frames) + len(more); err != nil || got != 65 {
			t.Errorf("%s: the device sent %d frames in all, %v", name, got, err)
		}
	}
}

// Close ends a write that waits.
func TestCloseWhileWriting(t *testing.T) {
	_, c := fake(t, fakedev.Config{QueueSize: 64}, packet.Config{})
	for range 64 {
		write(t, c, frame(60, ""))
	}
	done := make(chan error)
	go func() {
		_, err := c.WriteTo(frame(60, ""), nil)
		done <- err
	}()
	go c.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write that waited: %v", err)
	}
}

// What was written is sent before the port is closed.
func TestCloseSendsWhatWasWritten(t *testing.T) {
	dev, c := fake(t, fakedev.Config{}, packet.Config{})
	const frames = 10
	for range frames {
		write(t, c, frame(60, ""))
	}
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	sent := 0
	for sent < frames { // a device that takes its time
		frame, err := dev.TakeSent(0)
		if err != nil {
			t.Fatalf("the device was stopped after %d frames: %v", sent, err)
		}
		select {
		case err := <-closed:
			t.Fatalf("the port was closed after %d frames of %d: %v", sent, frames, err)
		case <-time.After(100 * time.Microsecond):
		}
		dev.Queue(virtio.TxQueue(0)).Use(uint32(frame.Chain.Head), 0)
		sent++
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A frame may lie in several buffers.
func TestFrameOfSeveralBuffers(t *testing.T) {
	dev, c := fake(t, fakedev.Config{}, packet.Config{})
	big := frame(5000, "")
	for i := range big[14:] {
		big[14+i] = byte(i * 7)
	}
	if err := dev.Deliver(0, virtio.NetHeader{}, big); err != nil {
		t.Fatal(err)
	}
	head, tail := make([]byte, 2100), make([]byte, 3000)
	ms := []packet.Message{{Buffers: [][]byte{head, tail}}}
	if n, err := c.ReadBatch(ms, 0); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if ms[0].N != 5000 || ms[0].Flags != 0 || !bytes.Equal(append(head, tail[:2900]...), big) {
		t.Errorf("%d bytes were read, flags %#x, or others", ms[0].N, ms[0].Flags)
	}
}

// A queue whose device breaks a rule ends the Conn with an error that names it.
func TestBrokenDevice(t *testing.T) {
	dev, c := fake(t, fakedev.Config{}, packet.Config{})
	q := dev.Queue(virtio.RxQueue(0))
	q.Use(60_000, 10)
	c.SetReadDeadline(soon())
	_, _, err := c.ReadFrom(nil)
	var rule *ring.RuleError
	if !errors.As(err, &rule) {
		t.Errorf("error %v", err)
	}
}

// A device that goes away ends what waits, and Close has the last word.
func TestEventsEndTheConn(t *testing.T) {
	for event, want := range map[port.Event]error{port.Removed: port.ErrGone, port.NeedsReset: port.ErrState} {
		null, err := port.NewNull(port.NullConfig{NoRx: true})
		if err != nil {
			t.Fatal(err)
		}
		p := &eventful{Port: null}
		c := listen(t, p, packet.Config{})
		done := make(chan error)
		go func() {
			_, _, err := c.ReadFrom(nil)
			done <- err
		}()
		p.notify(port.LinkChange) // which is none of the Conn's business
		p.notify(event)
		if err := <-done; !errors.Is(err, want) {
			t.Errorf("event %d: %v, want %v", event, err, want)
		}
		c.Close()
		if _, err := c.WriteTo(frame(60, ""), nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write behind Close: %v", err)
		}
	}
}

// eventful is a port whose events the test makes up.
type eventful struct {
	port.Port
	notify func(port.Event)
}

func (p *eventful) Notify(f func(port.Event)) { p.notify = f }

// Many goroutines share a Conn: every frame comes back once.
func TestManyGoroutines(t *testing.T) {
	for name, cfg := range map[string]packet.Config{"asleep": {}, "spinning": {Spin: 50 * time.Microsecond}, "polling": {Poll: true}} {
		const writers, readers, each = 4, 3, 300
		c := loopback(t, cfg)
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					if _, err := c.WriteTo(frame(60, fmt.Sprintf("%d/%d.", w, i)), c.LocalAddr()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		c.SetReadDeadline(soon())
		var mu sync.Mutex
		seen := map[string]int{}
		for range readers {
			all.Go(func() {
				ms := make([]packet.Message, 8)
				for i := range ms {
					ms[i].Buffers = [][]byte{make([]byte, 100)}
				}
				for {
					n, err := c.ReadBatch(ms, 0)
					if err != nil {
						return
					}
					mu.Lock()
					for _, m := range ms[:n] {
						text, _, _ := bytes.Cut(m.Buffers[0][14:], []byte("."))
						seen[string(text)]++
					}
					if len(seen) == writers*each {
						c.SetReadDeadline(time.Now())
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if len(seen) != writers*each {
			t.Errorf("%s: %d frames of %d came back", name, len(seen), writers*each)
		}
		for text, n := range seen {
			if n != 1 {
				t.Errorf("%s: frame %s came %d times", name, text, n)
			}
		}
	}
}

// Copying is nearly all that a frame costs: of memory there is its sender's address,
// and the list of pieces that ReadFrom makes of its buffer.
func TestAllocations(t *testing.T) {
	near, far := pair(t)
	f, buf := frame(60, ""), make([]byte, 100)
	got := testing.AllocsPerRun(100, func() {
		if _, err := near.WriteTo(f, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := far.ReadFrom(buf); err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 {
		t.Errorf("%v allocations for a frame there and back, want 2", got)
	}
}

// A port has one user: a second one is refused, and the first goes on.
func TestPortInUse(t *testing.T) {
	a, b, err := ringport.NewPair("near", "far", 64)
	if err != nil {
		t.Fatal(err)
	}
	pool := newPool(t)
	near, far := listen(t, a, packet.Config{Pool: pool}), listen(t, b, packet.Config{Pool: pool})
	if _, err := packet.Listen(a, packet.Config{Pool: pool}); !errors.Is(err, port.ErrState) || !strings.Contains(err.Error(), "near") {
		t.Errorf("listened twice: %v", err)
	}
	if _, err := packetsource.New(a, packetsource.Config{Pool: pool}); !errors.Is(err, port.ErrState) {
		t.Errorf("an adapter of another kind: %v", err)
	}
	write(t, near, frame(60, "still there"))
	if text, _ := read(t, far); text != string(frame(60, "still there")) {
		t.Errorf("read %q", text)
	}
	near.Close()
	if _, err := packet.Listen(a, packet.Config{Pool: pool}); !errors.Is(err, port.ErrClosed) {
		t.Errorf("listened on a closed port: %v", err)
	}
}
