package driver_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/virtio"
)

// soakTime is how long TestXSKSoak runs for each kind of ring: as
// VIONET_SOAK says, such as "10m", or half a second.
func soakTime(t *testing.T) time.Duration {
	s := os.Getenv("VIONET_SOAK")
	if s == "" {
		return 500 * time.Millisecond
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestXSKSoak has a sender, a completer, a poller, a device and somebody who
// stops and starts the port, each on a goroutine of its own. Every frame comes
// back, unchanged while it was away, and once.
func TestXSKSoak(t *testing.T) {
	for _, kind := range []ringKind{ringKinds[0], ringKinds[3], inOrderKinds[0], inOrderKinds[1]} {
		t.Run(kind.name, func(t *testing.T) {
			r := startXSK(t, xskRigConfig{rigConfig: rigConfig{
				dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 32}, opts: kind.opts,
			}})
			s := &soak{xskRig: r, free: make(chan uint64, r.umem.Frames()), state: make([]frameState, r.umem.Frames())}
			for i := range r.umem.Frames() {
				s.free <- uint64(i)
			}
			ctx, stop := context.WithTimeout(context.Background(), soakTime(t))
			defer stop()
			var all sync.WaitGroup
			pollCtx, stopPolling := context.WithCancel(context.Background())
			all.Go(func() { s.xsk.Run(pollCtx) })
			var busy sync.WaitGroup
			busy.Go(func() { s.send(ctx) })
			busy.Go(func() { s.restart(ctx) })
			completed := make(chan struct{})
			all.Go(func() { s.complete(completed) })
			deviceCtx, stopDevice := context.WithCancel(context.Background())
			all.Go(func() { s.work(deviceCtx, kind.opts.InOrder) })
			busy.Wait()
			stopDevice()
			stopPolling()
			s.device.Lock()                       // it may be in the middle of its work still
			if err := r.port.Stop(); err != nil { // waits for no burst: Run's are held off
				t.Error(err)
			}
			s.device.Unlock()
			left := r.xsk.Tx.Size() - r.xsk.Tx.Free() // never taken
			for deadline := time.Now().Add(20 * time.Second); len(s.free)+left+r.xsk.Outstanding() < r.umem.Frames() && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			close(completed)
			all.Wait()
			if got := len(s.free) + left + r.xsk.Outstanding(); got != r.umem.Frames() {
				t.Errorf("%d of %d frames are accounted for: %d back, %d on the tx ring, %d waiting for the device",
					got, r.umem.Frames(), len(s.free), left, r.xsk.Outstanding())
			}
			if st := r.xsk.Stats(); st != (driver.XSKStats{}) {
				t.Errorf("%+v: %v", st, r.xsk.Err())
			}
			t.Logf("%d frames sent, %d starts", s.sent, s.starts)
		})
	}
}

type soak struct {
	*xskRig
	free         chan uint64 // numbers of frames that are the application's
	state        []frameState
	device       sync.Mutex // the device's side, against its replacement by a restart
	sent, starts int
}

// frameState is what the application knows of a frame that is its own or away.
// Sender and completer own it in turn: free hands it over, and the rings.
type frameState struct {
	away   bool
	addr   uint64
	serial uint64
}

func (s *soak) send(ctx context.Context) {
	rng := rand.New(rand.NewPCG(1, 2))
	for ctx.Err() == nil {
		n := s.xsk.Tx.Reserve(1 + rng.IntN(16))
		used := 0
		for ; used < n && len(s.free) > 0; used++ {
			number := <-s.free
			f := &s.state[number]
			if f.away {
				s.t.Errorf("frame %d is free and away", number)
			}
			f.away, f.addr = true, number*2048+uint64(rng.IntN(300))
			f.serial++
			copy(s.umem.Data(f.addr, 100), frame(100, byte(f.serial)))
			*s.xsk.Tx.Slot(used) = driver.XSKDesc{Addr: f.addr, Len: 100}
			s.sent++
		}
		if err := s.xsk.Tx.Submit(used); err != nil {
			s.t.Error(err)
		}
		if s.xsk.Tx.NeedWakeup() {
			s.xsk.Wakeup()
		}
		if used == 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// complete takes completions until the end, and spoils every frame that is back.
func (s *soak) complete(end chan struct{}) {
	for {
		n := s.umem.Completion.Peek(16)
		for i := range n {
			addr := *s.umem.Completion.At(i)
			f := &s.state[addr>>11]
			if !f.away || f.addr != addr {
				s.t.Errorf("%#x came back; the frame is away: %v, at %#x", addr, f.away, f.addr)
			}
			f.away = false
			data := s.umem.Data(addr, 100)
			for i := range data {
				data[i] = 0xee
			}
			s.free <- addr >> 11
		}
		s.umem.Completion.Release(n)
		select {
		case <-end:
			return
		default:
		}
		if n == 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// work is the device: it takes frames, looks at them late, and completes them in
// any order where it may.
func (s *soak) work(ctx context.Context, inOrder bool) {
	rng := rand.New(rand.NewPCG(3, 4))
	var held []fakedev.Frame
	var queue *fakedev.Queue
	for ctx.Err() == nil {
		s.device.Lock()
		if q := s.dev.Queue(virtio.TxQueue(0)); q != queue {
			queue, held = q, nil // it was reset
		}
		for queue != nil && queue.Available() > 0 {
			f, err := s.dev.TakeSent(0)
			if err != nil {
				s.t.Error(err)
				break
			}
			held = append(held, f)
		}
		for n := rng.IntN(len(held) + 1); n > 0; n-- {
			i := 0
			if !inOrder {
				i = rng.IntN(len(held))
			}
			data := held[i].Chain.Readable()[virtio.NetHeaderSize:]
			if !bytes.Equal(data, frame(100, data[0])) {
				s.t.Errorf("a frame was overwritten while the device had it: %x", data)
			}
			s.use(held[i])
			held = append(held[:i], held[i+1:]...)
		}
		s.device.Unlock()
		time.Sleep(time.Duration(rng.IntN(50)) * time.Microsecond)
	}
}

// restart stops and starts the port, and resets its queue.
func (s *soak) restart(ctx context.Context) {
	rng := rand.New(rand.NewPCG(5, 6))
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rng.IntN(5000)) * time.Microsecond)
		s.device.Lock()
		if err := s.port.Restart(); err != nil {
			s.t.Error(err)
		}
		s.starts++
		s.device.Unlock()
	}
}
