package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

// wholePool makes a pool whose buffers are all back when the test has closed
// its ports.
func wholePool(t *testing.T) *mbuf.Pool {
	t.Helper()
	const count = 1024
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(mbuf.DefaultSize) + 2<<20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pool.Free() != count {
			t.Errorf("%d of %d buffers are back", pool.Free(), count)
		}
		mem.Close()
	})
	return pool
}

func startPort(t *testing.T, p port.Port, c port.Config) {
	t.Helper()
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Configure(c); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
}

// startPair starts a vhost port, and the driver of a guest behind it.
func startPair(t *testing.T, cfg vhost.PortConfig, host, guest port.Config) (hostPort, guestPort port.Port) {
	t.Helper()
	dir, err := os.MkdirTemp("", "guests") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.Path, cfg.Log = filepath.Join(dir, "s"), log
	if hostPort, err = vhost.NewPort(cfg); err != nil {
		t.Fatal(err)
	}
	startPort(t, hostPort, host)
	front, err := vhost.Dial(cfg.Path, vhost.FrontendConfig{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if guestPort, err = driver.Open(front, driver.Options{Logger: log}); err != nil {
		t.Fatal(err)
	}
	startPort(t, guestPort, guest)
	return hostPort, guestPort
}

// What one guest sends with TSO arrives at another as that one takes it: whole,
// in segments whose checksums are left open, or in segments as on a wire.
func TestLargePacketsFromGuestToGuest(t *testing.T) {
	const tso = port.TxTCPTSO | port.TxTCPCksum | port.TxMultiSegs
	for _, tt := range []struct {
		name    string
		offers  bool            // TSO at the second port
		send    port.TxOffloads // of the second port
		receive port.RxOffloads // of the second guest
		whole   bool
		flags   mbuf.Flags // of what arrives
	}{
		{"large frames taken", true, tso, port.RxTCPLRO | port.RxTCPCksum, true, mbuf.RxLRO | mbuf.RxL4None},
		{"checksums left open", true, tso, port.RxTCPCksum, false, mbuf.RxL4None},
		{"nothing taken", true, tso, 0, false, 0},
		{"port without TSO", false, port.TxTCPCksum | port.TxMultiSegs, port.RxTCPCksum, false, mbuf.RxL4None},
		{"port without offloads", false, port.TxMultiSegs, 0, false, 0},
	} {
		for _, packed := range []bool{false, true} {
			for _, c := range []l4Case{{payload: 60000}, {payload: 60000, ipv6: true}, {payload: 14000, tags: 1}} {
				t.Run(fmt.Sprintf("%s,packed=%t,%v", tt.name, packed, c), func(t *testing.T) {
					pool, far, near := wholePool(t), wholePool(t), wholePool(t)
					in, sender := startPair(t, vhost.PortConfig{Name: "net_vhost0", TSO: true, Packed: packed},
						port.Config{Pool: pool}, port.Config{Pool: far, TxOffloads: tso})
					out, receiver := startPair(t, vhost.PortConfig{Name: "net_vhost1", TSO: tt.offers, Packed: packed},
						port.Config{Pool: pool, TxOffloads: tt.send}, port.Config{Pool: near, RxOffloads: tt.receive})
					s := NewStream(StreamConfig{Rx: in.RxQueue(0), Tx: out.TxQueue(0), TxOffloads: tt.send, Burst: 32})
					s.UseCache(pool.NewCache(0))
					defer s.cache.Flush()

					const size = 1400
					frame, l2, l3 := c.build()
					b := (&script{cache: far.NewCache(0), segSize: 2048}).packet(frame)
					b.Flags, b.SegSize = mbuf.TxTSO|(&headers{ipv6: c.ipv6}).family(), size
					b.L2Len, b.L3Len, b.L4Len = uint16(l2), uint16(l3), tcpLen
					if n := sender.TxQueue(0).Burst([]*mbuf.Buf{b}); n != 1 {
						t.Fatalf("Burst = %d", n)
					}

					want := (c.payload + size - 1) / size
					if tt.whole {
						want = 1
					}
					at := len(frame) - c.payload
					var payload []byte
					got, bufs := 0, make([]*mbuf.Buf, 64)
					for limit := time.Now().Add(20 * time.Second); got < want && time.Now().Before(limit); {
						IO.Forward(s)
						n := receiver.RxQueue(0).Burst(bufs)
						for _, b := range bufs[:n] {
							var frame []byte
							for piece := range pieces(b, 0, b.PacketLen()) {
								frame = append(frame, piece...)
							}
							payload = append(payload, frame[at:]...)
							if b.Flags != tt.flags || tt.whole && b.SegSize != size || b.Flags&mbuf.RxL4None != 0 && int(b.CSumStart) != l2+l3 {
								t.Errorf("flags %#x, segments of %d, checksum from %d", b.Flags, b.SegSize, b.CSumStart)
							}
							if tt.flags == 0 && c.verify(frame, l2, l3) != 0 || !c.ipv6 && slowSum(frame[l2:l2+l3]) != 0 {
								t.Errorf("wrong checksums: %x", frame[:at])
							}
							b.Free()
						}
						got += n
					}
					if got != want || !bytes.Equal(payload, frame[at:]) {
						t.Errorf("%d frames with %d bytes of payload, want %d with %d", got, len(payload), want, c.payload)
					}
				})
			}
		}
	}
}
