package main

import (
	"context"
	"encoding/binary"
	"runtime"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/examples/internal/device"
	"vionet/mbuf"
	"vionet/port"
)

// This file has what the sender is compared with, and how it waits.

// sender sends frames in either way.
type sender interface {
	// send takes up to n frames, at most a burst, numbered from number on, and
	// returns how many.
	send(n int, number uint64) int
	// drain waits until all that were taken were sent.
	drain(ctx context.Context) error
}

func newSender(dev *driver.Device, pool *mbuf.Pool, o options) (sender, error) {
	if !o.copying {
		return newZeroCopy(dev, pool.Memory(), o.size)
	}
	c := &copying{tx: dev.TxQueue(0), cache: pool.NewCache(0), idle: pool.Free(), frame: device.Datagram(o.size, dev.Info().MAC, 9)}
	c.tx.UseCache(c.cache)
	return c, nil
}

// copying sends the same frames from buffers of a pool, into which each is
// copied.
type copying struct {
	tx    port.TxQueue
	cache *mbuf.Cache
	idle  int // buffers of the pool when nothing is sent
	frame []byte
	pkts  [burst]*mbuf.Buf
}

func (c *copying) send(n int, number uint64) int {
	n = c.cache.Get(c.pkts[:n])
	for i, b := range c.pkts[:n] {
		binary.BigEndian.PutUint64(c.frame[device.Headers:], number+uint64(i))
		copy(b.Renew(len(c.frame)), c.frame)
	}
	took := c.tx.Burst(c.pkts[:n])
	c.cache.Put(c.pkts[took:n])
	return took
}

func (c *copying) drain(ctx context.Context) error {
	for ; c.cache.Pool().Free() < c.idle; c.cache.Flush() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.tx.Reclaim()
	}
	return nil
}

// pause passes the time until there is something to do.
func pause(ctx context.Context, tx port.TxQueue, o options) {
	switch {
	case o.rate > 0:
		// A sleep of a few frames' time would cost more than they do. The
		// scheduler's own sleep spins before it is one.
		const share = ringSize / 2
		t := unix.NsecToTimespec(int64(min(share/o.rate*1e9, 1e6)))
		_ = unix.Nanosleep(&t, nil) // a signal ends it early, which does no harm
	case o.sleep:
		tx.(port.TxWaiter).Wait(ctx, ringSize/2)
	default:
		runtime.Gosched() // an embedded device may wait for this very processor
	}
}
