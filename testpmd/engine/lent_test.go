package engine

import (
	"bytes"
	"testing"

	"vionet/mbuf"
)

// borrowed is a receive queue whose packets are lent.
type borrowed struct {
	script
	lender *mbuf.Lender
}

func (q *borrowed) Burst(bufs []*mbuf.Buf) int {
	n := min(len(bufs), len(q.frames))
	for i, frame := range q.frames[:n] {
		bufs[i] = q.lender.Lend(frame, 0)
	}
	q.frames = q.frames[n:]
	return n
}

// wary is a sink that looks whether packets are lent.
type wary struct {
	sink
	lent int
}

func (q *wary) Burst(bufs []*mbuf.Buf) int {
	for _, b := range bufs {
		if b.Lent() {
			q.lent++
		}
	}
	return q.sink.Burst(bufs)
}

// Modes that only read pass lent packets on, unless a device is to read them;
// modes that write copy them first.
func TestLentPacketsAreNotWrittenTo(t *testing.T) {
	for _, e := range All {
		if e.Generates || e == RxOnly || e == SharedRxq {
			continue
		}
		reads := e == IO || e == Noisy || e == RecycleMbufs || e == FlowBatch
		for _, dma := range []bool{false, true} {
			frame := tcpFrame(t, 200)
			r := newRig(t, StreamConfig{RxLends: true, TxDMA: dma})
			tx := &wary{sink: sink{room: 1 << 30}}
			rx := &borrowed{script{frames: [][]byte{frame, frame}}, mbuf.NewLender(4)}
			r.Stream.Rx, r.Stream.Tx = rx, tx
			r.UseCache(r.cache)
			before := bytes.Clone(frame)
			e.Forward(r.Stream)
			if want := reads && !dma; e != ICMPEcho && (len(tx.sent) != 2 || (tx.lent == 2) != want) {
				t.Errorf("%s, DMA %v: %d packets sent, %d of them lent", e.Name, dma, len(tx.sent), tx.lent)
			}
			if !bytes.Equal(frame, before) {
				t.Errorf("%s, DMA %v: wrote to lent memory", e.Name, dma)
			}
			if n := rx.lender.Out(); n != 0 {
				t.Errorf("%s, DMA %v: %d packets still lent", e.Name, dma, n)
			}
			r.accounted(t)
		}
	}
}
