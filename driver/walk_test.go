package driver_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// TestB21RandomWalks goes through the states of a port at random, with failures
// put in, and traffic where it is started.
func TestB21RandomWalks(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	kinds := slices.Concat(ringKinds, inOrderKinds)
	walks := 1000
	if raceEnabled || testing.Short() {
		walks = 100
	}
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 16 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 1200})
	if err != nil {
		t.Fatal(err)
	}
	descriptors := openDescriptors(t)
	for i := range walks {
		w := walker{rng: rand.New(rand.NewPCG(uint64(i), 7)), pool: pool}
		if err := w.walk(kinds[i%len(kinds)]); err != nil {
			t.Fatalf("walk %d: %v\nsteps: %v", i, err, w.steps)
		}
		if free := pool.Free(); free != pool.Size() {
			t.Fatalf("walk %d left %d of %d buffers in the pool\nsteps: %v", i, free, pool.Size(), w.steps)
		}
	}
	if now := openDescriptors(t); now != descriptors {
		t.Errorf("%d file descriptors are open, %d were", now, descriptors)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// walker is one walk, with what the port's state must be.
type walker struct {
	rng     *rand.Rand
	pool    *mbuf.Pool
	dev     *fakedev.Device
	port    *driver.Device
	steps   []string
	ready   bool // configured
	started bool
	closed  bool
	serial  byte
}

func (w *walker) walk(kind ringKind) (err error) {
	w.dev = fakedev.New(fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, Pairs: 2, QueueSize: 64})
	if w.port, err = driver.Open(w.dev, kind.opts); err != nil {
		return err
	}
	for range 30 {
		if err := w.step(); err != nil {
			return err
		}
	}
	w.dev.FailSetup(-1)
	return w.port.Close()
}

func (w *walker) step() error {
	moves := []struct {
		name string
		run  func() error
	}{
		{"configure", w.configure}, {"start", w.start}, {"start", w.start}, {"stop", w.stop},
		{"traffic", w.traffic}, {"traffic", w.traffic}, {"traffic", w.traffic}, {"close", w.close},
	}
	m := moves[w.rng.IntN(len(moves))]
	if m.name == "close" && w.rng.IntN(4) > 0 {
		return nil
	}
	w.steps = append(w.steps, m.name)
	if err := m.run(); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// check compares an error with what the state makes of the step.
func check(err error, allowed bool) error {
	if (err == nil) != allowed {
		return fmt.Errorf("allowed %v, error %v", allowed, err)
	}
	return nil
}

func (w *walker) configure() error {
	cfg := port.Config{Pool: w.pool, RxQueues: 1 + w.rng.IntN(2), RxDesc: []int{0, 33, 64}[w.rng.IntN(3)]}
	if w.rng.IntN(2) == 0 {
		cfg.TxOffloads = port.TxTCPCksum
	}
	bad := w.rng.IntN(10) == 0
	if bad {
		cfg.RxQueues = 3
	}
	allowed := !w.started && !w.closed && !bad
	w.ready = w.ready || allowed
	return check(w.port.Configure(cfg), allowed)
}

func (w *walker) start() error {
	fail := -1
	if w.rng.IntN(10) == 0 {
		fail = w.rng.IntN(2)
	}
	w.dev.FailSetup(fail)
	allowed := w.ready && !w.started && !w.closed && fail < 0
	resets := w.dev.Resets()
	err := w.port.Start()
	w.started = w.started || allowed
	if allowed && w.dev.Resets() == resets {
		return fmt.Errorf("the device was not reset")
	}
	return check(err, allowed)
}

func (w *walker) stop() error {
	err := w.port.Stop()
	w.started = false
	if free := w.pool.Free(); free != w.pool.Size() {
		return fmt.Errorf("%d of %d buffers are in the pool", free, w.pool.Size())
	}
	return check(err, !w.closed)
}

func (w *walker) close() error {
	w.started, w.closed = false, true
	return w.port.Close()
}

// traffic sends a frame and receives one. Nothing that was on its way at the
// last stop may come.
func (w *walker) traffic() error {
	if !w.started {
		return nil
	}
	w.serial++
	want := frame(80, w.serial)
	b := w.pool.Get()
	copy(b.Append(len(want)), want)
	if n := w.port.TxQueue(0).Burst([]*mbuf.Buf{b}); n != 1 {
		b.Free()
		return fmt.Errorf("the port took %d packets", n)
	}
	sent, err := w.dev.TakeSent(0)
	if err != nil {
		return err
	}
	if !bytes.Equal(sent.Data, want) {
		return fmt.Errorf("an old frame was sent")
	}
	if w.rng.IntN(2) == 0 { // otherwise the device keeps it
		w.dev.Queue(virtio.TxQueue(0)).Use(uint32(sent.Chain.Head), 0)
	}
	if err := w.dev.Deliver(0, virtio.NetHeader{}, want); err != nil {
		return err
	}
	if w.rng.IntN(4) == 0 {
		return nil // left for a stop
	}
	pkts := make([]*mbuf.Buf, 16)
	n := w.port.RxQueue(0).Burst(pkts)
	if n == 0 {
		return fmt.Errorf("nothing was received")
	}
	if !bytes.Equal(pkts[n-1].Bytes(), want) {
		return fmt.Errorf("an old frame was received")
	}
	for _, p := range pkts[:n] {
		p.Free()
	}
	return nil
}
