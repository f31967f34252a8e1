package main

import (
	"context"
	"encoding/binary"

	"vionet/driver"
	"vionet/examples/internal/device"
	"vionet/mbuf"
)

// zeroCopy sends from frames of the application's own memory: each is written
// once, and then gets a new number whenever it is free.
type zeroCopy struct {
	umem *driver.UMEM
	xsk  *driver.XSK
	size int
	free []uint64 // addresses of frames that are ours
	next [burst][]byte
}

func newZeroCopy(dev *driver.Device, mem *mbuf.Memory, size int) (*zeroCopy, error) {
	const frames, frameSize, headroom, cacheLine = 2 * ringSize, 2048, 128, 64
	area, err := mapArea(frames * frameSize)
	if err != nil {
		return nil, err
	}
	z := &zeroCopy{size: size}
	if z.umem, err = driver.NewUMEM(mem, driver.UMEMConfig{Area: area, FrameSize: frameSize}); err != nil {
		return nil, err
	}
	// Frames that all began at the same place of a page would have a few sets of each
	// cache to themselves, and throw each other out.
	colours := (frameSize-headroom-size)/cacheLine + 1
	for i := range frames {
		addr := uint64(i*frameSize + headroom + i%colours*cacheLine)
		copy(z.umem.Data(addr, size), device.Datagram(size, dev.Info().MAC, 9))
		z.free = append(z.free, addr)
	}
	z.xsk, err = dev.NewXSK(z.umem, driver.XSKConfig{TxSize: frames})
	return z, err
}

// send implements sender.
func (z *zeroCopy) send(n int, number uint64) int {
	n = z.xsk.Tx.Reserve(min(n, len(z.free)))
	for i := range n {
		addr := z.free[len(z.free)-1-i]
		binary.BigEndian.PutUint64(z.umem.Data(addr, z.size)[device.Headers:], number+uint64(i))
		*z.xsk.Tx.Slot(i) = driver.XSKDesc{Addr: addr, Len: uint32(z.size)}
	}
	z.xsk.Tx.Submit(n) // that many were reserved
	z.free = z.free[:len(z.free)-n]
	z.xsk.Poll()
	z.takeBack()
	z.prefetch()
	return n
}

// prefetch asks for the cache lines of the next burst's frames, which the device's
// processor has.
func (z *zeroCopy) prefetch() {
	next := z.next[:min(len(z.next), len(z.free))]
	for i := range next {
		next[i] = z.umem.Data(z.free[len(z.free)-1-i], z.size)
	}
	mbuf.PrefetchWrite(next)
}

// takeBack makes the frames that were sent ours again.
func (z *zeroCopy) takeBack() {
	done := z.umem.Completion.Peek(z.umem.Completion.Size())
	for i := range done {
		z.free = append(z.free, *z.umem.Completion.At(i))
	}
	z.umem.Completion.Release(done) // that many were peeked at
}

// drain implements sender.
func (z *zeroCopy) drain(ctx context.Context) error {
	for len(z.free) < z.umem.Frames() && ctx.Err() == nil {
		z.xsk.Poll()
		z.takeBack()
	}
	if err := z.xsk.Close(ctx); err != nil {
		return err
	}
	return z.umem.Close(ctx)
}
