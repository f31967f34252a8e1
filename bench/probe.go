package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"vionet/bench/frames"
	"vionet/bench/peer"
	"vionet/bench/turns"
	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

// probe measures how long frames are on their way through a switch: it plays the
// wire at one of the switch's ports, sends frames with the time in them, and
// receives them at the other, or the same. Both ends are polled by the same
// goroutine, which reads one clock.
type probe struct {
	*peer.Group             // the switch
	ports       []port.Port // this end's: frames go out of the first, and come back at the last
	memory      *mbuf.Memory
	pool        *mbuf.Pool
	frames      [][]byte // what is sent, in turn
	interval    time.Duration

	next    int // of frames
	refused int // frames for which there was no room

	turn uint64        // of run
	held time.Duration // the longest that this end was kept from polling
	tx   port.TxQueue
	rx   port.RxQueue
	pkts [64]*mbuf.Buf
	seen []time.Duration // of the frames of a window
}

// probeBufs is the number of buffers of a probe: its rings can be full, and the
// switch can have as many again.
const probeBufs = 2048

// newProbe makes a probe without ports.
func newProbe(size, rate int) (_ *probe, err error) {
	p := &probe{Group: &peer.Group{}, interval: time.Second / time.Duration(rate), seen: make([]time.Duration, 0, rate)}
	for _, flow := range frames.Shuffled(latencyFlows) {
		frame, err := frames.UDP(flow, size)
		if err != nil {
			return nil, err
		}
		p.frames = append(p.frames, frame)
	}
	if p.memory, err = mbuf.NewMemory(mbuf.MemoryConfig{Size: probeBufs*mbuf.Stride(mbuf.DefaultSize) + 1<<20, NoHuge: true}); err != nil {
		return nil, err
	}
	p.pool, err = mbuf.NewPool(p.memory, mbuf.PoolConfig{Count: probeBufs})
	return p, err
}

// add adds a port and starts it.
func (p *probe) add(made port.Port, err error) error {
	if err != nil {
		return err
	}
	p.ports = append(p.ports, made)
	if err := made.Configure(port.Config{Pool: p.pool}); err != nil {
		return err
	}
	return made.Start()
}

// startSwitch starts the switch between the ports of its end.
func (p *probe) startSwitch(ctx context.Context, c switching, dir, name string, middle part) error {
	running, err := c.start(ctx, dir, name, 0, 0, middle)
	if err == nil {
		p.Group = running
	}
	return err
}

// probeWires is the published P2P: the switch has two front ends, and the probe
// both wires.
func probeWires(ctx context.Context, c switching, dir string, b buffering, size, rate int) (_ *probe, err error) {
	p, err := newProbe(size, rate)
	defer p.closeOn(&err)
	if err != nil {
		return nil, err
	}
	in, out := peer.Socket(dir, b.name, 0), peer.Socket(dir, b.name, 1)
	for _, path := range []string{in, out} {
		if err := p.add(vhost.NewPort(vhost.PortConfig{Path: path})); err != nil {
			return nil, err
		}
	}
	return p, p.startSwitch(ctx, c, dir, b.name, forwarder(b, frontEnd(0, in), frontEnd(1, out)))
}

// probeGuest is the published PV: the probe is the wire and the guest.
func probeGuest(ctx context.Context, c switching, dir string, b buffering, size, rate int) (_ *probe, err error) {
	p, err := newProbe(size, rate)
	defer p.closeOn(&err)
	if err != nil {
		return nil, err
	}
	wire, guest := peer.Socket(dir, b.name, 0), peer.Socket(dir, b.name, 1)
	if err := p.add(vhost.NewPort(vhost.PortConfig{Path: wire})); err != nil {
		return nil, err
	}
	if err := p.startSwitch(ctx, c, dir, b.name, forwarder(b, frontEnd(0, wire), backEnd(0, guest))); err != nil {
		return nil, err
	}
	return p, p.dial(ctx, guest, driver.Options{})
}

// dial adds the front end of a back end of the switch.
func (p *probe) dial(ctx context.Context, socket string, opts driver.Options) error {
	// The switch has to answer.
	if err := p.Resume(); err != nil {
		return err
	}
	front, err := vhost.DialContext(ctx, socket, vhost.FrontendConfig{})
	if err != nil {
		return err
	}
	if err := p.add(driver.Open(front, opts)); err != nil {
		return err
	}
	return p.Settle(ctx)
}

func (p *probe) closeOn(err *error) {
	if *err != nil {
		p.Kill()
	}
}

// Kill ends the switch and gives everything back.
func (p *probe) Kill() {
	p.Group.Kill()
	for _, port := range p.ports {
		port.Close()
	}
	if p.memory != nil {
		p.memory.Close()
	}
}

// Measure sends for a window, at the rate of the probe. What was not back when the
// window and a while more are over is lost.
func (p *probe) Measure(ctx context.Context, window time.Duration) (d delays, err error) {
	err = p.poll(ctx, func(cache *mbuf.Cache) error {
		sent := p.run(cache, window)
		if len(p.seen) == 0 {
			return fmt.Errorf("none of %d frames came back", sent)
		}
		lost := sent - len(p.seen)
		d = summarise(p.seen)
		d.lost = lost
		return nil
	})
	return d, err
}

// poll lets the switch run while f does, on the probe's core and undisturbed by this
// process's garbage collector.
func (p *probe) poll(ctx context.Context, f func(*mbuf.Cache) error) error {
	if err := p.Resume(); err != nil {
		return err
	}
	defer p.Pause()
	if err := turns.Sleep(ctx, peer.WarmUp); err != nil {
		return err
	}
	leave, err := peer.OnCore(peerCore)
	if err != nil {
		return err
	}
	defer leave()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	cache := p.pool.NewCache(0)
	defer cache.Flush()
	p.tx, p.rx = p.ports[0].TxQueue(0), p.ports[len(p.ports)-1].RxQueue(0)
	p.tx.UseCache(cache)
	p.rx.UseCache(cache)
	p.run(cache, peer.WarmUp)
	failed := f(cache)
	if err := errors.Join(p.tx.Err(), p.rx.Err(), p.Processes[0].Alive(), failed); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// pace changes the rate, in frames a second.
func (p *probe) pace(rate int) { p.interval = time.Second / time.Duration(rate) }

// homeward is how long the probe waits for its last frames.
const homeward = 5 * time.Millisecond

// run sends for a window, leaves the latencies in p.seen, and gives the number of
// frames that were sent. A frame for which there is no room is not sent at all, and
// counted in p.refused.
func (p *probe) run(cache *mbuf.Cache, window time.Duration) (sent int) {
	p.turn++
	p.seen, p.refused, p.held = p.seen[:0], 0, 0
	begin := time.Now()
	due, last := time.Duration(0), time.Duration(0)
	for now := due; now < window+homeward; now = time.Since(begin) {
		p.held = max(p.held, now-last)
		last = now
		if now >= due && now < window {
			sent += p.send(cache, begin)
			// A probe that was held up leaves out what it missed.
			due = max(due+p.interval, now)
		}
		n := p.rx.Burst(p.pkts[:])
		if n == 0 {
			continue
		}
		arrived := time.Since(begin)
		for _, b := range p.pkts[:n] {
			if stamp, ok := p.stampOf(b.Bytes()); ok {
				p.seen = append(p.seen, arrived-stamp)
			}
		}
		cache.Put(p.pkts[:n])
		if now >= window && len(p.seen) == sent {
			break
		}
	}
	return sent
}

// send sends the next frame with the time since begin in it.
func (p *probe) send(cache *mbuf.Cache, begin time.Time) int {
	one := p.pkts[:1]
	if cache.Get(one) == 0 {
		p.tx.Reclaim()
		return 0
	}
	frame := p.frames[p.next]
	p.next = (p.next + 1) % len(p.frames)
	one[0].Reset()
	data := one[0].Append(len(frame))
	copy(data, frame)
	p.putStamp(data, time.Since(begin))
	if p.tx.Burst(one) == 0 {
		cache.Put(one)
		p.refused++
		return 0
	}
	return 1
}

// A stamp is behind the headers: a word that other frames do not have, with the
// turn added, and the time in nanoseconds.
const (
	stampMark   = 0x76696f6e65740000
	stampLength = 16
)

func (p *probe) putStamp(frame []byte, t time.Duration) {
	binary.NativeEndian.PutUint64(frame[frames.Headers:], stampMark+p.turn)
	binary.NativeEndian.PutUint64(frame[frames.Headers+8:], uint64(t))
}

// stampOf is the time in a frame of this turn.
func (p *probe) stampOf(frame []byte) (t time.Duration, ok bool) {
	if len(frame) < frames.Headers+stampLength || binary.NativeEndian.Uint64(frame[frames.Headers:]) != stampMark+p.turn {
		return 0, false
	}
	return time.Duration(binary.NativeEndian.Uint64(frame[frames.Headers+8:])), true
}
