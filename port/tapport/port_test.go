package tapport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/scripts/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPool(t testing.TB, count int) *mbuf.Pool {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(mbuf.DefaultSize) + 4096, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// bench is a port in a network namespace of its own, and the kernel's end.
type bench struct {
	*testing.T
	ns   *lab.Namespace
	port port.Port
	pool *mbuf.Pool
}

func newBench(t *testing.T, cfg Config) *bench {
	t.Helper()
	lab.Need(t, "net", "root")
	ns, err := lab.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	b := &bench{T: t, ns: ns, pool: newPool(t, 512)}
	b.do(func() error {
		b.port, err = New(cfg)
		return err
	})
	t.Cleanup(func() { b.port.Close() })
	return b
}

// do runs f in the namespace.
func (b *bench) do(f func() error) {
	b.Helper()
	if err := b.ns.Do(f); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) start(c port.Config) {
	b.Helper()
	c.Pool = b.pool
	b.do(func() error { return errors.Join(b.port.Configure(c), b.port.Start()) })
}

func (b *bench) cable(iface string) *lab.Cable {
	b.Helper()
	c, err := b.ns.Open(iface)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func (b *bench) iface(name string) (found *net.Interface) {
	b.Helper()
	b.do(func() (err error) {
		found, err = net.InterfaceByName(name)
		return err
	})
	return found
}

// frame makes a broadcast of n bytes with a number in it, of a protocol that
// nobody speaks.
func frame(n, number int) []byte {
	f := bytes.Repeat([]byte{byte(number)}, n)
	copy(f, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
	if n >= 18 {
		binary.BigEndian.PutUint32(f[14:], uint32(number))
	}
	return f
}

// packet makes a chain of segments of the frame.
func packet(t testing.TB, pool *mbuf.Pool, segments ...[]byte) *mbuf.Buf {
	t.Helper()
	var head *mbuf.Buf
	for _, s := range segments {
		b := pool.Get()
		if b == nil {
			t.Fatal("the pool is empty")
		}
		copy(b.Append(len(s)), s)
		if head == nil {
			head = b
		} else {
			head.Chain(b)
		}
	}
	return head
}

func content(b *mbuf.Buf) (all []byte) {
	for ; b != nil; b = b.Next() {
		all = append(all, b.Bytes()...)
	}
	return all
}

// receive polls the port's queues until n frames are there.
func (b *bench) receive(n int, queues ...int) (frames [][]byte) {
	b.Helper()
	bufs := make([]*mbuf.Buf, 4)
	for deadline := time.Now().Add(10 * time.Second); len(frames) < n; {
		got := 0
		for _, q := range queues {
			k := b.port.RxQueue(q).Burst(bufs)
			for _, p := range bufs[:k] {
				frames = append(frames, content(p))
				p.Free()
			}
			got += k
		}
		if got == 0 {
			if time.Now().After(deadline) {
				b.Fatalf("%d of %d frames received", len(frames), n)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return frames
}

func (b *bench) allBack() {
	b.Helper()
	if b.pool.Free() != b.pool.Size() {
		b.Errorf("%d of %d buffers are back", b.pool.Free(), b.pool.Size())
	}
}

func TestFramesGoBothWays(t *testing.T) {
	mac := net.HardwareAddr{2, 0x11, 0x22, 0x33, 0x44, 0x55}
	b := newBench(t, Config{Interface: "tap7", MAC: mac})
	b.start(port.Config{MTU: 9000})
	if i := b.iface("tap7"); !bytes.Equal(i.HardwareAddr, mac) || i.MTU != 9000 || i.Flags&net.FlagUp == 0 {
		t.Errorf("interface %+v", i)
	}
	if i := b.port.Info(); !bytes.Equal(i.MAC, mac) || i.MTU != 9000 || i.Driver != "net_tap" || b.port.Name() != "net_tap0" {
		t.Errorf("info %+v", i)
	}
	if l := b.port.Link(); !l.Up || l.Speed != 10000 {
		t.Errorf("link %+v", l)
	}
	cable := b.cable("tap7")

	whole := frame(9000, 3)
	bufs := []*mbuf.Buf{
		packet(t, b.pool, frame(60, 1)), packet(t, b.pool, frame(1514, 2)),
		packet(t, b.pool, whole[:100], whole[100:2000], whole[2000:4000], whole[4000:6000], whole[6000:8000], whole[8000:]),
		packet(t, b.pool, frame(13, 0)), // no frame
		packet(t, b.pool, frame(60, 4)), // asks for what is not there
		packet(t, b.pool, frame(64, 5)),
	}
	bufs[4].Flags = mbuf.TxUDPChecksum
	if n := b.port.TxQueue(0).Burst(bufs); n != 6 {
		t.Fatalf("%d of 6 taken", n)
	}
	want := [][]byte{frame(60, 1), frame(1514, 2), whole, frame(64, 5)}
	got, err := cable.WaitFrames(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("the kernel's frame %d: %.40x, want %.40x", i, got[i], want[i])
		}
	}
	if s := b.port.Stats(); s.TxPackets != 4 || s.TxBytes != 60+1514+9000+64 || s.TxErrors != 2 || s.Tx[0].Errors != 2 {
		t.Errorf("%+v", s)
	}

	for _, f := range want {
		if err := cable.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range b.receive(4, 0) {
		if !bytes.Equal(f, want[i]) {
			t.Errorf("frame %d of %d bytes: %.40x, want %.40x", i, len(f), f, want[i])
		}
	}
	if s := b.port.Stats(); s.RxPackets != 4 || s.RxBytes != 60+1514+9000+64 || s.RxMissed != 0 {
		t.Errorf("%+v", s)
	}
	b.port.ResetStats()
	if s := b.port.Stats(); s.RxPackets != 0 || s.TxErrors != 0 {
		t.Errorf("after the reset: %+v", s)
	}
	if err := b.port.Stop(); err != nil {
		t.Error(err)
	}
	b.allBack()
	if i := b.iface("tap7"); i.Flags&net.FlagUp != 0 || b.port.Link().Up {
		t.Errorf("up after the stop: %+v", i)
	}
}

func TestCloseRemovesTheInterface(t *testing.T) {
	b := newBench(t, Config{}) // the kernel's number and address
	b.start(port.Config{RxQueues: 3, TxQueues: 2})
	if i := b.iface("dtap0"); !bytes.Equal(i.HardwareAddr, b.port.Info().MAC) || i.MTU != 1500 {
		t.Errorf("interface %+v, info %+v", i, b.port.Info())
	}
	if err := errors.Join(b.port.Close(), b.port.Close()); err != nil {
		t.Error(err)
	}
	b.do(func() error {
		if _, err := net.InterfaceByName("dtap0"); err == nil {
			t.Error("the interface is there after the close")
		}
		return nil
	})
	if err := b.port.Start(); !errors.Is(err, port.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
	b.allBack()
}

// TestTwoQueues: the kernel spreads flows over the queues, every one arrives
// once, and each transmit queue reaches the kernel. Fewer queues after a restart
// still receive everything.
func TestTwoQueues(t *testing.T) {
	b := newBench(t, Config{Interface: "tap0"})
	for _, queues := range [][]int{{0, 1}, {0}, {0, 1}} {
		b.start(port.Config{RxQueues: len(queues), TxQueues: 3})
		cable := b.cable("tap0") // a packet socket does not outlive the stop
		for i := range 32 {
			if err := cable.Send(udp(uint16(1000 + i))); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[uint16]bool{}
		for _, f := range b.receive(32, queues...) {
			seen[binary.BigEndian.Uint16(f[34:])] = true
		}
		s := b.port.Stats()
		if len(seen) != 32 || len(queues) == 2 && (s.Rx[0].Packets == 0 || s.Rx[1].Packets == 0) {
			t.Errorf("%d queues: %d different frames, %+v", len(queues), len(seen), s)
		}
		for i := range 3 {
			b.port.TxQueue(i).Burst([]*mbuf.Buf{packet(t, b.pool, frame(60, i))})
		}
		if _, err := cable.WaitFrames(t.Context(), 3); err != nil {
			t.Error(err)
		}
		if err := b.port.Stop(); err != nil {
			t.Error(err)
		}
		b.allBack()
		cable.Close()
		b.port.ResetStats()
	}
}

// udp makes an IPv4 UDP frame from that port.
func udp(from uint16) []byte {
	f := make([]byte, 60)
	copy(f, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46})
	copy(f[22:], []byte{64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
	binary.BigEndian.PutUint16(f[34:], from)
	binary.BigEndian.PutUint16(f[36:], 9)
	binary.BigEndian.PutUint16(f[38:], 26)
	return f
}

func TestShortOfBuffers(t *testing.T) {
	b := newBench(t, Config{Interface: "tap0"})
	b.start(port.Config{MTU: 9000})
	cable := b.cable("tap0")
	var held []*mbuf.Buf
	for buf := b.pool.Get(); buf != nil; buf = b.pool.Get() {
		held = append(held, buf)
	}
	bufs := make([]*mbuf.Buf, 4)
	if n := b.port.RxQueue(0).Burst(bufs); n != 0 || b.port.Stats().RxNoBuf != 1 {
		t.Fatalf("%d received without buffers, %+v", n, b.port.Stats())
	}
	held[0].Free()
	if err := errors.Join(cable.Send(frame(9000, 1)), cable.Send(frame(60, 2))); err != nil {
		t.Fatal(err)
	}
	// The long one is lost for want of four more buffers.
	if got := b.receive(1, 0); !bytes.Equal(got[0], frame(60, 2)) {
		t.Errorf("received %.40x", got[0])
	}
	if s := b.port.Stats(); s.RxMissed != 1 || s.RxPackets != 1 {
		t.Errorf("%+v", s)
	}
	for _, buf := range held[1:] {
		buf.Free()
	}
	b.port.Stop()
	b.allBack()
}

func TestWait(t *testing.T) {
	b := newBench(t, Config{Interface: "tap0"})
	b.start(port.Config{})
	if err := b.port.RxQueue(0).Wait(t.Context()); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("without interrupts: %v", err)
	}
	b.port.Stop()
	b.start(port.Config{RxInterrupts: true})
	cable := b.cable("tap0")
	q := b.port.RxQueue(0)
	for i := range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		time.AfterFunc(time.Millisecond, func() { cancel(enough) })
		if err := q.Wait(ctx); !errors.Is(err, enough) {
			t.Errorf("cancelled: %v", err)
		}
		sent := make(chan error, 1)
		time.AfterFunc(5*time.Millisecond, func() { sent <- cable.Send(frame(60, i)) })
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		if err := errors.Join(q.Wait(ctx), <-sent); err != nil {
			t.Fatal(err)
		}
		stop()
		b.receive(1, 0)
	}
	b.port.Stop()
	b.allBack()
}

func TestInterfaceIsRemoved(t *testing.T) {
	b := newBench(t, Config{Interface: "tap0"})
	b.start(port.Config{RxInterrupts: true, TxQueues: 2})
	events := make(chan port.Event, 4)
	b.port.Notify(func(e port.Event) { events <- e })
	p := b.port.(*tapPort)
	waited := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		waited <- b.port.RxQueue(0).Wait(ctx)
	}()
	b.do(func() error {
		l, err := findLink("tap0")
		if err != nil {
			return err
		}
		defer l.close()
		_, err = l.ask(unix.RTM_DELLINK, 0, 0, nil)
		return err
	})
	if err := <-waited; err != nil {
		t.Errorf("Wait: %v", err)
	}
	if n := b.port.RxQueue(0).Burst(make([]*mbuf.Buf, 4)); n != 0 || !errors.Is(b.port.RxQueue(0).Err(), port.ErrGone) {
		t.Errorf("received %d, error %v", n, b.port.RxQueue(0).Err())
	}
	bufs := []*mbuf.Buf{packet(t, b.pool, frame(60, 1)), packet(t, b.pool, frame(60, 2))}
	if n := b.port.TxQueue(1).Burst(bufs); n != 2 || !errors.Is(b.port.TxQueue(1).Err(), port.ErrGone) || b.port.Stats().TxErrors != 2 {
		t.Errorf("took %d, error %v, %+v", n, b.port.TxQueue(1).Err(), b.port.Stats())
	}
	if e := <-events; e != port.Removed || p.Link().Up {
		t.Errorf("event %d, link %+v", e, p.Link())
	}
	if err := p.SetMAC(net.HardwareAddr{2, 0, 0, 0, 0, 9}); !errors.Is(err, port.ErrGone) {
		t.Errorf("SetMAC: %v", err)
	}
	if err := b.port.Stop(); err != nil {
		t.Errorf("Stop: %v", err)
	}
	b.do(func() error {
		err := errors.Join(p.Configure(port.Config{Pool: b.pool, RxQueues: 2}), p.Start())
		if _, lookup := net.InterfaceByName("tap0"); !errors.Is(err, port.ErrGone) || lookup == nil {
			t.Errorf("Start: %v", err)
		}
		return nil
	})
	if err := b.port.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	b.allBack()
}

func TestAddresses(t *testing.T) {
	b := newBench(t, Config{Interface: "tap0"})
	f := b.port.(port.MACFilter)
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	if err := f.SetMAC(mac); err != nil {
		t.Fatal(err)
	}
	if i := b.iface("tap0"); !bytes.Equal(i.HardwareAddr, mac) || !bytes.Equal(f.MACs()[0], mac) {
		t.Errorf("interface %+v, MACs %v", i, f.MACs())
	}
	if err := errors.Join(f.AddMAC(mac), f.RemoveMAC(mac)); err != nil {
		t.Error(err)
	}
	if err := f.AddMAC(net.HardwareAddr{2, 0, 0, 0, 0, 8}); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("AddMAC: %v", err)
	}
	if err := f.SetMAC(net.HardwareAddr{1, 0, 0, 0, 0, 8}); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("SetMAC of a group: %v", err)
	}
	m := b.port.(port.AllMulticaster)
	if err := errors.Join(m.SetAllMulticast(true), b.port.SetPromiscuous(true)); err != nil || !m.AllMulticast() || !b.port.Info().Promiscuous {
		t.Errorf("modes: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	b := newBench(t, Config{Interface: "tap0"})
	if err := b.port.Start(); !errors.Is(err, port.ErrState) {
		t.Errorf("Start before Configure: %v", err)
	}
	for want, cfgs := range map[error][]port.Config{
		port.ErrInvalid:      {{}, {Pool: b.pool, RxQueues: 17}, {Pool: b.pool, MTU: 67}, {Pool: b.pool, MTU: 65522}},
		port.ErrNotSupported: {{Pool: b.pool, RxOffloads: port.RxTCPLRO}, {Pool: b.pool, TxOffloads: port.TxTCPTSO}},
	} {
		for _, c := range cfgs {
			if err := b.port.Configure(c); !errors.Is(err, want) {
				t.Errorf("%+v: %v, want %v", c, err, want)
			}
		}
	}
	b.do(func() error {
		for _, name := range []string{"tap0", "lo"} {
			if _, err := New(Config{Interface: name}); err == nil {
				t.Errorf("%s: taken over", name)
			}
		}
		return nil
	})
	if _, err := New(Config{Interface: "tap1", MAC: net.HardwareAddr{1, 2, 3, 4, 5, 6}}); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("a group's address: %v", err)
	}
	b.start(port.Config{MTU: 65521})
	for what, err := range map[string]error{"Configure": b.port.Configure(port.Config{Pool: b.pool}), "Start": b.port.Start()} {
		if !errors.Is(err, port.ErrState) {
			t.Errorf("%s while started: %v", what, err)
		}
	}
}

// TestWithoutPrivilege runs itself as nobody.
func TestWithoutPrivilege(t *testing.T) {
	if os.Getuid() != 0 {
		_, err := New(Config{Interface: "tap0"})
		if err == nil || !errors.Is(err, os.ErrPermission) || !bytes.Contains([]byte(err.Error()), []byte("CAP_NET_ADMIN")) {
			t.Errorf("without privilege: %v", err)
		}
		return
	}
	lab.Need(t, "net", "root")
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.run=^TestWithoutPrivilege$", "-test.v")
	cmd.ExtraFiles = []*os.File{exe}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestBurstsAllocateNothing(t *testing.T) {
	b := newBench(t, Config{Interface: "tap0"})
	b.start(port.Config{})
	bufs := make([]*mbuf.Buf, 4)
	rx, tx := b.port.RxQueue(0), b.port.TxQueue(0)
	if n := testing.AllocsPerRun(50, func() {
		bufs[0] = b.pool.Get()
		bufs[0].Append(60)
		tx.Burst(bufs[:1])
		if n := rx.Burst(bufs); n != 0 {
			t.Fatalf("%d received", n)
		}
	}); n != 0 {
		t.Errorf("%v allocations a burst", n)
	}
	b.port.Stop()
	b.allBack()
}
