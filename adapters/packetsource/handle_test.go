package packetsource

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/port/ringport"
	"vionet/virtio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPool(t *testing.T) *mbuf.Pool {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 8 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(pool.Close(), mem.Close()); err != nil {
			t.Error(err)
		}
	})
	return pool
}

// pair is two ports at the ends of a cable, both started, with two queues.
func pair(t *testing.T, pool *mbuf.Pool) (near, far port.Port) {
	t.Helper()
	near, far, err := ringport.NewPair("near", "far", 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []port.Port{near, far} {
		start(t, p, port.Config{Pool: pool, RxQueues: 2, TxQueues: 2, RxInterrupts: true})
	}
	return near, far
}

// start starts a port, and closes it with the test.
func start(t *testing.T, p port.Port, cfg port.Config) {
	t.Helper()
	t.Cleanup(func() { p.Close() })
	if err := errors.Join(p.Configure(cfg), p.Start()); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, p port.Port, pool *mbuf.Pool) *Handle {
	t.Helper()
	h, err := New(p, Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// datagram is a UDP datagram to that port.
func datagram(t *testing.T, to uint16, payload string) []byte {
	t.Helper()
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{192, 0, 2, 1}, DstIP: net.IP{192, 0, 2, 2}}
	udp := &layers.UDP{SrcPort: 39_999, DstPort: layers.UDPPort(to)}
	udp.SetNetworkLayerForChecksum(ip)
	out := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(out, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4},
		ip, udp, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// inSegments sends a frame in buffers of ten bytes.
func inSegments(t *testing.T, pool *mbuf.Pool, q port.TxQueue, frame []byte) {
	t.Helper()
	var head *mbuf.Buf
	for ; len(frame) > 0; frame = frame[min(10, len(frame)):] {
		b := pool.Get()
		copy(b.Append(min(10, len(frame))), frame)
		if head == nil {
			head = b
		} else {
			head.Chain(b)
		}
	}
	if q.Burst([]*mbuf.Buf{head}) != 1 {
		t.Fatal("no room")
	}
}

// gopacket decodes what one handle writes and the other reads, from its channel, by
// NextPacket, and without a copy.
func TestPacketSource(t *testing.T) {
	pool := newPool(t)
	near, far := pair(t, pool)
	reader, writer := open(t, near, pool), open(t, far, pool)
	sources := map[string]*gopacket.PacketSource{
		"copying":   gopacket.NewPacketSource(reader, reader.LinkType()),
		"zero copy": gopacket.NewZeroCopyPacketSource(reader, reader.LinkType()),
		"no copy":   gopacket.NewZeroCopyPacketSource(reader, reader.LinkType(), gopacket.WithNoCopy(true), gopacket.WithLazy(true)),
	}
	port := uint16(40_000) // that gopacket knows no protocol of
	check := func(how string, p gopacket.Packet, begin time.Time, payload string) {
		t.Helper()
		udp, ok := p.TransportLayer().(*layers.UDP)
		if !ok || uint16(udp.DstPort) != port || string(udp.Payload) != payload || p.ErrorLayer() != nil {
			t.Fatalf("%s: %v", how, p)
		}
		meta := p.Metadata()
		if meta.Timestamp.Before(begin) || meta.Timestamp.After(time.Now()) || meta.CaptureLength != max(42+len(payload), 60) || meta.Length != meta.CaptureLength {
			t.Errorf("%s: %+v", how, meta)
		}
	}
	for how, source := range sources {
		for _, payload := range []string{"short", strings.Repeat("long", 100)} {
			port++
			begin := time.Now()
			if err := writer.WritePacketData(datagram(t, port, payload)); err != nil {
				t.Fatal(err)
			}
			inSegments(t, pool, far.TxQueue(1), datagram(t, port, payload))
			queues := 0
			for range 2 {
				p, err := source.NextPacket()
				if err != nil {
					t.Fatal(err)
				}
				check(how, p, begin, payload)
				queues += 1 << p.Metadata().InterfaceIndex
			}
			if queues != 1<<0+1<<1 {
				t.Errorf("%s: not one packet of either queue: %b", how, queues)
			}
		}
	}

	packets := gopacket.NewPacketSource(reader, reader.LinkType()).Packets()
	begin := time.Now()
	for range 10 {
		port++
		if err := writer.WritePacketData(datagram(t, port, "in a channel")); err != nil {
			t.Fatal(err)
		}
		check("channel", <-packets, begin, "in a channel")
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	if p, open := <-packets; open {
		t.Errorf("the channel of a closed handle gave %v", p)
	}
}

// processTime is the processor time of this process.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// A reader costs next to nothing while nothing comes, and Close ends its sleep.
func TestReaderSleepsUntilClose(t *testing.T) {
	pool := newPool(t)
	near, _ := pair(t, pool)
	h := open(t, near, pool)
	begin, used := time.Now(), processTime(t)
	time.AfterFunc(200*time.Millisecond, func() { h.Close() })
	_, _, err := h.ReadPacketData()
	if took, used := time.Since(begin), processTime(t)-used; used > took/2 {
		t.Errorf("a sleep of %v took %v of a processor", took, used)
	}
	if !errors.Is(err, io.EOF) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("read of a closed handle: %v", err)
	}
	if _, _, err := h.ZeroCopyReadPacketData(); !errors.Is(err, io.EOF) {
		t.Errorf("read after Close: %v", err)
	}
	if err := h.WritePacketData(make([]byte, 60)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after Close: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// Close gives back what was received and not read, or lent.
func TestCloseFreesPackets(t *testing.T) {
	pool := newPool(t)
	near, far := pair(t, pool)
	h, writer := open(t, near, pool), open(t, far, pool)
	for range 5 {
		if err := writer.WritePacketData(datagram(t, 1, "x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := h.ZeroCopyReadPacketData(); err != nil {
		t.Fatal(err)
	}
	h.Close()
	writer.Close()
	if pool.Free() != pool.Size() {
		t.Errorf("%d of %d buffers are back", pool.Free(), pool.Size())
	}
}

// A writer waits while nobody receives, loses nothing, and Close ends its wait.
func TestWriterWaitsForRoom(t *testing.T) {
	pool := newPool(t)
	near, far := pair(t, pool)
	reader, writer := open(t, near, pool), open(t, far, pool)
	const frames = 300 // the ring holds 64
	wrote := make(chan error)
	go func() {
		for i := range frames {
			if err := writer.WritePacketData(datagram(t, uint16(40_000+i), "x")); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	for far.Stats().TxPackets < 64 {
		runtime.Gosched()
	}
	source := gopacket.NewPacketSource(reader, reader.LinkType())
	for i := range frames {
		p, err := source.NextPacket()
		if err != nil {
			t.Fatal(err)
		}
		if udp := p.TransportLayer().(*layers.UDP); int(udp.DstPort) != 40_000+i {
			t.Fatalf("frame %d in the place of %d", udp.DstPort-40_000, i)
		}
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if err := writer.WritePacketData(datagram(t, 1, "x")); err != nil {
				wrote <- err
				return
			}
		}
	}()
	for far.Stats().TxPackets < frames+64 {
		runtime.Gosched()
	}
	writer.Close()
	if err := <-wrote; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write that Close ended: %v", err)
	}
}

// A context ends gopacket's goroutine with the next packet, as with other sources.
func TestPacketsWithAContext(t *testing.T) {
	pool := newPool(t)
	near, _ := pair(t, pool)
	h := open(t, near, pool)
	ctx, cancel := context.WithCancel(t.Context())
	packets := gopacket.NewPacketSource(h, h.LinkType()).PacketsCtx(ctx)
	cancel()
	h.Close()
	if _, open := <-packets; open {
		t.Error("the channel is open")
	}
}

func TestRefusals(t *testing.T) {
	pool := newPool(t)
	near, far := pair(t, pool)
	h := open(t, near, pool)
	refused := func(what string, p port.Port, cfg Config, want error, mend string) {
		t.Helper()
		if h, err := New(p, cfg); !errors.Is(err, want) || h != nil || !strings.Contains(err.Error(), mend) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("twice", near, Config{Pool: pool}, port.ErrState, "close that first")
	refused("no pool", far, Config{}, port.ErrInvalid, "a pool")
	far.Stop()
	refused("stopped", far, Config{Pool: pool}, port.ErrState, "start the port")
	far.Close()
	refused("closed", far, Config{Pool: pool}, port.ErrState, "start the port")
	null, err := port.NewNull(port.NullConfig{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, null, port.Config{Pool: pool})
	refused("no alarms", null, Config{Pool: pool}, port.ErrNotSupported, "")
	h.Close()
	if h, err := New(near, Config{Pool: pool}); err != nil {
		t.Errorf("after Close: %v", err)
	} else {
		h.Close()
	}
	refused("negative spin", near, Config{Pool: pool, Spin: -1}, port.ErrInvalid, "negative")
}

func TestFramesOfAWrongLength(t *testing.T) {
	pool := newPool(t)
	near, far := pair(t, pool)
	h := open(t, near, pool)
	for size, want := range map[int]error{0: port.ErrInvalid, 13: port.ErrInvalid, 14: nil, 1518: nil, 1519: unix.EMSGSIZE, 70000: unix.EMSGSIZE} {
		err := h.WritePacketData(make([]byte, size))
		if !errors.Is(err, want) || want != nil && !errors.Is(err, port.ErrInvalid) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	far.Stop()
	if err := errors.Join(far.Configure(port.Config{Pool: pool, MTU: 9000, RxInterrupts: true}), far.Start()); err != nil {
		t.Fatal(err)
	}
	jumbo := open(t, far, pool)
	if err := jumbo.WritePacketData(make([]byte, 5000)); !errors.Is(err, unix.EMSGSIZE) || !strings.Contains(err.Error(), "BufSize") {
		t.Errorf("more than a buffer holds: %v", err)
	}
}

// A device that lies stops a queue; the reader is told once, and sleeps on.
func TestBrokenQueue(t *testing.T) {
	pool := newPool(t)
	dev := fakedev.New(fakedev.Config{})
	p, err := driver.Open(dev, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, p, port.Config{Pool: pool, RxInterrupts: true})
	h := open(t, p, pool)
	if err := dev.Deliver(0, virtio.NetHeader{}, datagram(t, 7, "honest")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.ReadPacketData(); err != nil {
		t.Fatal(err)
	}
	dev.Queue(virtio.RxQueue(0)).SkipUsed(257)
	if _, _, err := h.ReadPacketData(); err == nil || !strings.Contains(err.Error(), "receive queue 0") {
		t.Fatalf("a lie was read: %v", err)
	}
	time.AfterFunc(10*time.Millisecond, func() { h.Close() })
	if _, _, err := h.ReadPacketData(); !errors.Is(err, io.EOF) {
		t.Errorf("second read: %v", err)
	}
}
