package main

import (
	"context"
	"encoding/binary"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

const burst = 32

// drainTime is how long the last frames may take.
const drainTime = 5 * time.Second

// zeroCopy sends from frames of the application's own memory: each is written
// once, and then gets a new number whenever it is free.
func zeroCopy(ctx context.Context, dev *driver.Device, pool *mbuf.Pool, o options) (r result, err error) {
	const frames, frameSize, offset = 1024, 2048, 128 // room for the header in front
	area, err := unix.Mmap(-1, 0, frames*frameSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return r, err
	}
	umem, err := driver.NewUMEM(pool.Memory(), driver.UMEMConfig{Area: mbuf.Area{Bytes: area}, FrameSize: frameSize})
	if err != nil {
		return r, err
	}
	xsk, err := dev.NewXSK(umem, driver.XSKConfig{TxSize: frames})
	if err != nil {
		return r, err
	}
	free := make([]uint64, frames)
	for i := range free {
		free[i] = uint64(i*frameSize + offset)
		fillFrame(umem.Data(free[i], o.size), dev.Info().MAC)
	}
	p := startPacing(o)
	for p.more(ctx) {
		free = takeBack(umem, free)
		n := xsk.Tx.Reserve(min(p.allowed(), len(free)))
		for i := range n {
			addr := free[len(free)-1-i]
			p.stamp(umem.Data(addr, o.size), i)
			*xsk.Tx.Slot(i) = driver.XSKDesc{Addr: addr, Len: uint32(o.size)}
		}
		xsk.Tx.Submit(n) // that many were reserved
		free = free[:len(free)-n]
		p.sent(n)
		if xsk.Poll() == 0 {
			p.pause(ctx, dev.TxQueue(0))
		}
	}
	r = p.result()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	for xsk.Tx.Free() < xsk.Tx.Size() && drain.Err() == nil {
		takeBack(umem, nil)
		xsk.Poll()
	}
	if err := xsk.Close(drain); err != nil {
		return r, err
	}
	return r, umem.Close(drain)
}

// takeBack adds the frames that were sent to free.
func takeBack(umem *driver.UMEM, free []uint64) []uint64 {
	n := umem.Completion.Peek(umem.Completion.Size())
	for i := range n {
		free = append(free, *umem.Completion.At(i))
	}
	umem.Completion.Release(n) // that many were peeked at
	return free
}

// copying sends the same frames from buffers of a pool, into which each is
// copied.
func copying(ctx context.Context, dev *driver.Device, pool *mbuf.Pool, o options) (r result, err error) {
	data := make([]byte, o.size)
	fillFrame(data, dev.Info().MAC)
	tx, cache := dev.TxQueue(0), pool.NewCache(0)
	tx.UseCache(cache)
	pkts, idle := make([]*mbuf.Buf, burst), pool.Free()
	p := startPacing(o)
	for p.more(ctx) {
		n := cache.Get(pkts[:p.allowed()])
		for i, b := range pkts[:n] {
			p.stamp(data, i)
			copy(b.Renew(o.size), data)
		}
		took := tx.Burst(pkts[:n])
		cache.Put(pkts[took:n])
		p.sent(took)
		if took == 0 {
			p.pause(ctx, tx)
		}
	}
	r = p.result()
	for end := time.Now().Add(drainTime); pool.Free() < idle && time.Now().Before(end); cache.Flush() {
		tx.Reclaim()
	}
	return r, nil
}

// pacing says when how much is to be sent, and counts it.
type pacing struct {
	o      options
	start  time.Time
	cpu    time.Duration
	frames uint64
}

// startPacing begins the time. The goroutine keeps its thread, whose processor
// time is measured.
func startPacing(o options) *pacing {
	runtime.LockOSThread()
	return &pacing{o: o, start: time.Now(), cpu: threadTime()}
}

func (p *pacing) more(ctx context.Context) bool {
	over := p.o.count > 0 && p.frames >= p.o.count || ctx.Err() != nil
	return !over && time.Since(p.start).Seconds() < p.o.seconds
}

// allowed is the number of frames that may be sent now, at most a burst.
func (p *pacing) allowed() int {
	n := uint64(burst)
	if p.o.rate > 0 {
		due := uint64(time.Since(p.start).Seconds() * p.o.rate)
		n = min(n, due-min(due, p.frames))
	}
	if p.o.count > 0 {
		n = min(n, p.o.count-p.frames)
	}
	return int(n)
}

// stamp numbers a frame, the one that is i behind those that were sent.
func (p *pacing) stamp(frame []byte, i int) {
	binary.BigEndian.PutUint64(frame[headers:], p.frames+uint64(i))
}

func (p *pacing) sent(n int) { p.frames += uint64(n) }

// pause passes the time until there is something to do: the ring has room, or
// the next burst is due.
func (p *pacing) pause(ctx context.Context, tx port.TxQueue) {
	switch {
	case p.o.rate > 0:
		due := float64(p.frames+burst) / p.o.rate
		time.Sleep(min(time.Duration(due*1e9)-time.Since(p.start), time.Millisecond))
	case p.o.sleep:
		const room = 128 // of the 256 descriptors
		tx.(port.TxWaiter).Wait(ctx, room)
	default:
		runtime.Gosched() // an embedded device may wait for this very processor
	}
}

func (p *pacing) result() result {
	runtime.UnlockOSThread()
	return result{frames: p.frames, elapsed: time.Since(p.start), cpu: threadTime() - p.cpu}
}
