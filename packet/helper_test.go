package packet_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/packet"
	"vionet/port"
	"vionet/port/ringport"
	"vionet/vhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newPool makes a pool that a Conn can work with; at the end of the test every
// buffer is back in it.
func newPool(t testing.TB) *mbuf.Pool {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 16 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 4096})
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

// listen gives a Conn on p, which the end of the test closes.
func listen(t testing.TB, p port.Port, cfg packet.Config) *packet.Conn {
	t.Helper()
	c, err := packet.Listen(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// silent gives a Conn on which nothing ever arrives.
func silent(t testing.TB, cfg packet.Config) *packet.Conn {
	t.Helper()
	p, err := port.NewNull(port.NullConfig{NoRx: true})
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, p, cfg)
}

// pair gives two Conns with a cable between them.
func pair(t testing.TB) (near, far *packet.Conn) {
	t.Helper()
	a, b, err := ringport.NewPair("near", "far", 64)
	if err != nil {
		t.Fatal(err)
	}
	pool := newPool(t)
	return listen(t, a, packet.Config{Pool: pool}), listen(t, b, packet.Config{Pool: pool})
}

// fake gives a Conn on a fake device.
func fake(t testing.TB, dev fakedev.Config, cfg packet.Config) (*fakedev.Device, *packet.Conn) {
	t.Helper()
	d := fakedev.New(dev)
	p, err := driver.Open(d, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d, listen(t, p, cfg)
}

// loopback gives a Conn on a device that returns every frame.
func loopback(t testing.TB, cfg packet.Config) *packet.Conn {
	t.Helper()
	loop, err := vhost.StartLoopback(vhost.LoopbackConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { loop.Close() })
	front, err := loop.Dial(vhost.FrontendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := driver.Open(front, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, p, cfg)
}

// frame makes a frame of n bytes from one station to another.
func frame(n int, text string) []byte {
	f := make([]byte, n)
	copy(f, "\x02\x00\x00\x00\x00\x02"+"\x02\x00\x00\x00\x00\x01"+"\x88\xb5"+text)
	return f
}

// soon is a deadline for what should happen at once.
func soon() time.Time { return time.Now().Add(20 * time.Second) }

// read reads one frame.
func read(t testing.TB, c net.PacketConn) (string, net.Addr) {
	t.Helper()
	if err := c.SetReadDeadline(soon()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	n, from, err := c.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n]), from
}

// write writes one frame.
func write(t testing.TB, c net.PacketConn, f []byte) {
	t.Helper()
	if n, err := c.WriteTo(f, nil); err != nil || n != len(f) {
		t.Fatalf("%d bytes of %d were written: %v", n, len(f), err)
	}
}
