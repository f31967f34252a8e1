package driver_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/virtio"
)

// TestB09BufferIsNotFreeWhileItIsSent sends received packets on in the buffers
// that they came in. The device reads them late, in any order, while another
// goroutine overwrites whatever buffers are free.
func TestB09BufferIsNotFreeWhileItIsSent(t *testing.T) {
	for _, kind := range ringKinds {
		t.Run(kind.name, func(t *testing.T) {
			r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 64}, opts: kind.opts, buffers: 256})
			var scribbler sync.WaitGroup
			stop := make(chan struct{})
			var overwritten atomic.Int64
			scribbler.Go(func() { overwriteFree(r.pool, stop, &overwritten) })

			const total = 5000
			rng := rand.New(rand.NewPCG(9, 9))
			q := r.dev.Queue(virtio.TxQueue(0))
			var held []sentInHand
			pkts := make([]*mbuf.Buf, 32)
			stamped, taken, completed := uint64(0), uint64(0), 0
			for completed < total || overwritten.Load() == 0 {
				for range rng.IntN(16) {
					if r.dev.Deliver(0, virtio.NetHeader{NumBuffers: 1}, make([]byte, 64)) != nil {
						break // the driver has no buffers left
					}
				}
				n := r.rx().Burst(pkts)
				for _, b := range pkts[:n] {
					binary.LittleEndian.PutUint64(b.Bytes(), stamped)
					stamped++
				}
				took := r.tx().Burst(pkts[:n])
				for _, b := range pkts[took:n] {
					stamped--
					b.Free()
				}
				for q.Available() > 0 {
					c, err := q.Take()
					if err != nil {
						t.Fatal(err)
					}
					held = append(held, sentInHand{chainInHand{c.Head, c.Buffers[0].Bytes}, taken})
					taken++
				}
				rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
				keep := rng.IntN(len(held) + 1)
				for _, h := range held[keep:] {
					data := h.bytes[virtio.NetHeaderSize:]
					if got := binary.LittleEndian.Uint64(data); got != h.serial || bytes.IndexByte(data[8:], 0xee) >= 0 {
						t.Fatalf("packet %d reads %x when its time comes", h.serial, data)
					}
					q.Use(uint32(h.head), 0)
					completed++
				}
				held = held[:keep]
				r.tx().Reclaim()
			}
			close(stop)
			scribbler.Wait()
		})
	}
}

// sentInHand is a packet that the device has taken, with the number in it.
type sentInHand struct {
	chainInHand
	serial uint64
}

// overwriteFree overwrites free buffers until stop is closed, and counts them.
func overwriteFree(pool *mbuf.Pool, stop chan struct{}, n *atomic.Int64) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if b := pool.Get(); b != nil {
			for i, room := 0, b.Append(b.Tailroom()); i < len(room); i++ {
				room[i] = 0xee
			}
			b.Free()
			n.Add(1)
		}
	}
}
