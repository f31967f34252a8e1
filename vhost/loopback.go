package vhost

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"vionet/virtio"
)

// LoopbackConfig says what a Loopback is like.
type LoopbackConfig struct {
	// Path is where it listens, for a front end in another process; empty:
	// only Dial reaches it.
	Path   string
	Pairs  int             // queue pairs; 0: 1
	Packed bool            // offer packed virtqueues beside split ones
	Mask   virtio.Features // features not to offer
	Log    *slog.Logger    // nil: silence

	withhold protocolFeatures // not to offer
}

// Loopback is a device that returns every frame: what comes in on the transmit
// queue of a pair goes out on its receive queue. It takes checksum and
// segmentation requests; a checksum is filled in when the receiving side has
// not said that it can do without, and a frame that was to be segmented comes
// back whole.
//
// Frames wait while the driver has no receive buffers. When it has given none
// for a while, it does not want them, and they are dropped until it does.
type Loopback struct {
	backend  *Backend
	pairs    []loopPair
	stop     chan struct{}
	stopOnce sync.Once
	worker   sync.WaitGroup
}

// Polling of the loopback's goroutine. On processors of its own a longer spin
// gains little; where the driver waits for one, it costs the driver's time.
const (
	spinTime = 5 * time.Microsecond  // without a frame, before it sleeps
	holdTime = 10 * time.Millisecond // that frames wait for receive buffers
)

// StartLoopback starts the device. One goroutine moves its frames; it polls
// while there are any, and sleeps until it is kicked while there are none.
func StartLoopback(cfg LoopbackConfig) (*Loopback, error) {
	backendConfig := BackendConfig{Pairs: cfg.Pairs, Packed: cfg.Packed, Mask: cfg.Mask, Log: cfg.Log, withhold: cfg.withhold}
	var backend *Backend
	var err error
	if cfg.Path == "" {
		if backend, err = newBackend(backendConfig); err == nil {
			backend.run()
		}
	} else {
		backend, err = Listen(cfg.Path, backendConfig)
	}
	if err != nil {
		return nil, err
	}
	l := &Loopback{backend: backend, stop: make(chan struct{})}
	for i := range backend.Pairs() {
		l.pairs = append(l.pairs, loopPair{rx: backend.RxQueue(i), tx: backend.TxQueue(i)})
	}
	l.worker.Go(l.run)
	return l, nil
}

// Dial gives the device's front end, over a socket pair of this process. The
// device has one front end at a time.
func (l *Loopback) Dial(cfg FrontendConfig) (*Frontend, error) {
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return dial(context.Background(), inProcess{l.backend}, cfg)
}

// Stats counts the frames that came back, and those that were dropped.
func (l *Loopback) Stats() QueueStats {
	var sum QueueStats
	for i := range l.backend.Pairs() {
		rx, tx := l.backend.RxQueue(i).Stats(), l.backend.TxQueue(i).Stats()
		sum.Frames += rx.Frames
		sum.Bytes += rx.Bytes
		sum.Dropped += rx.Dropped + tx.Dropped
	}
	return sum
}

// Close ends the connection and the device. A second call does nothing.
func (l *Loopback) Close() error {
	l.stopOnce.Do(func() {
		close(l.stop)
		l.worker.Wait()
		l.backend.Close()
	})
	return nil
}

// run moves frames until Close.
func (l *Loopback) run() {
	for {
		l.poll()
		if l.stopped() {
			return
		}
		// Nothing moves. Have the driver kick, look once more, and sleep.
		l.askForKicks()
		if l.bounce() {
			continue
		}
		select {
		case <-l.backend.kicked:
		case <-l.stop:
			return
		}
	}
}

// poll moves frames until there were none for spinTime, or Close.
func (l *Loopback) poll() {
	var idle time.Time
	for spins := 0; ; spins++ {
		switch {
		case l.bounce():
			if l.stopped() {
				return
			}
			spins = -1
		case spins == 0:
			idle = time.Now()
		case spins%16 == 0 && time.Since(idle) > spinTime:
			return
		}
		runtime.Gosched() // the driver may wait for this very processor
	}
}

func (l *Loopback) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// bounce moves a burst of every pair, and reports whether there was a frame.
func (l *Loopback) bounce() (moved bool) {
	for i := range l.pairs {
		if l.pairs[i].bounce() {
			moved = true
		}
	}
	return moved
}

func (l *Loopback) askForKicks() {
	for i := range l.pairs {
		l.pairs[i].rx.SetNotify(true)
		l.pairs[i].tx.SetNotify(true)
	}
}

// loopPair is a queue pair that is looped back.
type loopPair struct {
	rx, tx *Queue
	// starved is since when frames have waited for receive buffers; zero:
	// they do not.
	starved time.Time
	scratch []byte // a frame whose checksum is filled in
}

// bounce moves a burst of frames from the transmit to the receive queue. They
// are copied once, from the driver's buffer to the driver's buffer. Where there
// are frames, they are polled for: the driver needs not kick.
func (p *loopPair) bounce() (moved bool) {
	p.rx.mu.Lock()
	defer p.rx.mu.Unlock()
	defer p.tx.leave(p.tx.enter())
	if p.tx.ring == nil || p.tx.ring.Pending() == 0 {
		return false
	}
	p.tx.ring.Notify(false)
	frames := p.tx.take(queueBurst)
	if p.rx.ring != nil {
		p.rx.ring.Notify(false)
		p.rx.beginDelivery(len(frames))
	}
	gone := 0
	for i := range frames {
		if !p.pass(&frames[i]) {
			if p.worthWaiting() {
				break
			}
			p.tx.stats.Dropped++
		}
		gone++
	}
	if p.rx.ring != nil {
		p.rx.copyNow()
	}
	// A device that dies in between has lost frames; shown first as received,
	// they would be taken for unsent by the next device, and come twice.
	p.tx.giveBack(frames[:gone])
	p.tx.ring.Return(len(frames) - gone)
	p.tx.flush()
	if p.rx.ring != nil {
		p.rx.endDelivery()
	}
	return true
}

// worthWaiting reports whether receive buffers can be expected.
func (p *loopPair) worthWaiting() bool {
	if p.rx.ring == nil || p.rx.ring.Err() != nil {
		return false
	}
	if p.starved.IsZero() {
		p.starved = time.Now()
	}
	return time.Since(p.starved) < holdTime
}

// pass writes a frame of the transmit queue to the receive queue, or drops it
// when it asks for a checksum outside of itself. It is false when there are no
// buffers for it.
func (p *loopPair) pass(f *takenFrame) bool {
	if p.rx.ring == nil {
		return false
	}
	in := f.header
	if in.Flags&virtio.HdrNeedsCSum == 0 {
		return p.deliver(nil, p.tx.data(f), f.size)
	}
	if int(in.CSumStart)+int(in.CSumOffset)+2 > f.size {
		p.rx.stats.Dropped++
		return true
	}
	if p.rx.features.Has(virtio.NetGuestCSUM) {
		out := p.partial(in)
		return p.deliver(&out, p.tx.data(f), f.size)
	}
	p.scratch = append(p.scratch[:0], make([]byte, f.size)...)
	gather(p.scratch, p.tx.data(f))
	completeChecksum(p.scratch, in.CSumStart, in.CSumOffset)
	delivered := p.deliver(nil, [][]byte{p.scratch}, f.size)
	p.rx.copyNow() // the scratch memory is the next frame's too
	return delivered
}

func (p *loopPair) deliver(h *virtio.NetHeader, data [][]byte, size int) bool {
	delivered := p.rx.deliver(h, data[0], data[1:], size)
	if delivered {
		p.starved = time.Time{}
	}
	return delivered
}

// partial is the header of a frame that comes back with its checksum, and
// where the driver takes that its segmentation, still to be done.
func (p *loopPair) partial(in virtio.NetHeader) virtio.NetHeader {
	out := virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: in.CSumStart, CSumOffset: in.CSumOffset}
	kind := in.GSOType &^ virtio.GSOECN
	tso4 := kind == virtio.GSOTCPv4 && p.rx.features.Has(virtio.NetGuestTSO4)
	tso6 := kind == virtio.GSOTCPv6 && p.rx.features.Has(virtio.NetGuestTSO6)
	if tso4 || tso6 {
		out.GSOType, out.GSOSize, out.HdrLen = kind, in.GSOSize, in.HdrLen
		if p.rx.features.Has(virtio.NetGuestECN) {
			out.GSOType = in.GSOType
		}
	}
	return out
}
