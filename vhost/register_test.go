package vhost

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// anonymous maps memory as an application would.
func anonymous(tb testing.TB, size int) []byte {
	tb.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Munmap(b) })
	return b
}

// openUMEMPort opens a started port on a front end.
func openUMEMPort(t *testing.T, f *Frontend) (*driver.Device, *mbuf.Pool) {
	t.Helper()
	p, err := driver.Open(f, driver.Options{Logger: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 8 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 1024})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Configure(port.Config{Pool: pool}); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p, pool
}

// Memory is registered and taken back while the port runs, with back ends that
// take regions one by one and those that take tables; frames in it are sent
// without a copy and come back.
func TestUMEMComesAndGoes(t *testing.T) {
	for _, withhold := range []protocolFeatures{0, protocolMemSlots} {
		for _, mask := range []virtio.Features{0, virtio.RingPacked} {
			t.Run(fmt.Sprintf("without %#x and %v", withhold, mask), func(t *testing.T) {
				l, err := StartLoopback(LoopbackConfig{Packed: true, Mask: mask, withhold: withhold, Log: logTo(t)})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				f, err := l.Dial(FrontendConfig{Log: logTo(t)})
				if err != nil {
					t.Fatal(err)
				}
				p, pool := openUMEMPort(t, f)
				var pkts [32]*mbuf.Buf
				plain, returned, fromUMEM := 0, 0, 0
				receive := func() {
					n := p.RxQueue(0).Burst(pkts[:])
					for _, b := range pkts[:n] {
						switch {
						case bytes.Equal(b.Bytes(), frameOf(1, 64)):
							returned++
						case bytes.Equal(b.Bytes(), frameOf(2, 700)):
							fromUMEM++
						default:
							t.Errorf("a frame of %d bytes that nobody sent", b.Len())
						}
						b.Free()
					}
				}
				ordinary := func() {
					b := pool.Get()
					copy(b.Append(64), frameOf(1, 64))
					plain += p.TxQueue(0).Burst([]*mbuf.Buf{b})
				}
				const rounds, frames = 30, 16
				area := anonymous(t, frames*2048)
				for round := range rounds {
					ordinary()
					u, err := driver.NewUMEM(pool.Memory(), driver.UMEMConfig{Area: mbuf.Area{Bytes: area}})
					if err != nil {
						t.Fatal(err)
					}
					x, err := p.NewXSK(u, driver.XSKConfig{TxSize: frames})
					if err != nil {
						t.Fatal(err)
					}
					for i := range x.Tx.Reserve(frames) {
						addr := uint64(i)*2048 + 200
						copy(u.Data(addr, 700), frameOf(2, 700))
						*x.Tx.Slot(i) = driver.XSKDesc{Addr: addr, Len: 700}
					}
					if err := x.Tx.Submit(frames); err != nil {
						t.Fatal(err)
					}
					ordinary()
					eventually(t, fmt.Sprintf("completions of round %d", round), func() bool {
						x.Poll()
						receive()
						return u.Completion.Peek(frames) == frames
					})
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					if err := x.Close(ctx); err != nil {
						t.Fatal(err)
					}
					if err := u.Close(ctx); err != nil {
						t.Fatal(err)
					}
					cancel()
					clear(area) // the application's again
				}
				eventually(t, "all frames back", func() bool {
					receive()
					return returned == plain && fromUMEM == rounds*frames
				})
			})
		}
	}
}

// A back end that dies with frames in flight: the next one, or a restart, sends
// them or gives them back; each is on the completion ring once.
func TestB29UMEMOutlivesBackEnds(t *testing.T) {
	for _, mask := range []virtio.Features{virtio.RingPacked, 0} {
		m := &mortal{tb: t, path: socketPath(t), cfg: LoopbackConfig{Packed: true, Mask: mask}}
		m.live()
		f, err := Dial(m.path, FrontendConfig{Log: logTo(t)})
		if err != nil {
			t.Fatal(err)
		}
		f.pause = 1
		p, pool := openUMEMPort(t, f)
		const frames = 64
		u, err := driver.NewUMEM(pool.Memory(), driver.UMEMConfig{Area: mbuf.Area{Bytes: anonymous(t, frames*2048)}})
		if err != nil {
			t.Fatal(err)
		}
		x, err := p.NewXSK(u, driver.XSKConfig{TxSize: frames})
		if err != nil {
			t.Fatal(err)
		}
		free, away, completed := []uint64{}, map[uint64]bool{}, 0
		for i := range uint64(frames) {
			free = append(free, i*2048+128)
		}
		move := func() {
			n := x.Tx.Reserve(len(free))
			for i, addr := range free[:n] {
				*x.Tx.Slot(i) = driver.XSKDesc{Addr: addr, Len: 300}
				away[addr] = true
			}
			if err := x.Tx.Submit(n); err != nil {
				t.Fatal(err)
			}
			free = free[n:]
			x.Poll()
			n = u.Completion.Peek(frames)
			for i := range n {
				addr := *u.Completion.At(i)
				if !away[addr] {
					t.Fatalf("%#x came back twice", addr)
				}
				delete(away, addr)
				free = append(free, addr)
			}
			if err := u.Completion.Release(n); err != nil {
				t.Fatal(err)
			}
			completed += n
		}
		for death := range 10 {
			before := completed
			eventually(t, fmt.Sprintf("frames after death %d", death), func() bool { move(); return completed > before+200 })
			m.die(death%2 == 0)
			move()
			m.live()
			if death == 5 {
				eventually(t, "a restart", func() bool { return p.Restart() == nil })
			}
		}
		m.die(false)
		move()
		if err := p.Stop(); err != nil {
			t.Log(err) // there is no back end
		}
		n := u.Completion.Peek(frames)
		for i := range n {
			delete(away, *u.Completion.At(i))
		}
		waiting := x.Tx.Size() - x.Tx.Free() + x.Outstanding()
		if len(away) != waiting {
			t.Errorf("%d frames are away, %d wait for the next start", len(away), waiting)
		}
		if err := x.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := u.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
