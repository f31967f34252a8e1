package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

// clientPatience bounds the wait for what a client of the back end does.
const clientPatience = 20 * time.Second

// printCell writes the line of one cell of the matrix of clients.
func printCell(name, format string, args ...any) {
	fmt.Fprintf(os.Stdout, "cell: %-72s %s\n", name, fmt.Sprintf(format, args...))
}

// eventually waits until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(clientPatience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// socketPath is the path of a socket of the test. It is short, as the name of a
// socket must be, and without the commas of a cell's name, which would end a
// devarg.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vionet-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "vhost.sock")
}

// heldPort is a started port in the hands of the test.
type heldPort struct {
	t    *testing.T
	port port.Port
	pool *mbuf.Pool
	bufs [32]*mbuf.Buf // scratch
}

// hold starts a port with the number of queue pairs given. At the end of the
// test it closes the port, and every buffer has to be back in the pool.
func hold(t *testing.T, p port.Port, pairs int) heldPort {
	t.Helper()
	const buffers = 2048
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: mbuf.PoolMemory(mbuf.IOVAVirtual, buffers, mbuf.DefaultSize) + 1<<20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: buffers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: %+v", p.Name(), p.Stats())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if pool.Free() != pool.Size() {
			t.Errorf("%d of %d buffers are back in the pool", pool.Free(), pool.Size())
		}
	})
	if err := p.Configure(port.Config{RxQueues: pairs, TxQueues: pairs, Pool: pool}); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return heldPort{t: t, port: p, pool: pool}
}

// backEnd is a port on a vhost-user back end.
type backEnd struct {
	heldPort
	socket string
}

// newBackEnd listens for front ends with the number of queue pairs given.
func newBackEnd(t *testing.T, pairs int) *backEnd {
	t.Helper()
	socket := socketPath(t)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	p, err := vhost.NewPort(vhost.PortConfig{Path: socket, Queues: pairs, Packed: true, TSO: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return &backEnd{heldPort: hold(t, p, pairs), socket: socket}
}

// send offers frames to one queue until it took all of them.
func (e *heldPort) send(queue int, frames [][]byte) {
	e.t.Helper()
	for i, frame := range frames {
		b := e.packet(frame)
		eventually(e.t, fmt.Sprintf("room for frame %d", i), func() bool {
			e.bufs[0] = b
			return e.port.TxQueue(queue).Burst(e.bufs[:1]) == 1
		})
	}
}

// packet copies a frame into buffers.
func (e *heldPort) packet(frame []byte) *mbuf.Buf {
	e.t.Helper()
	var head *mbuf.Buf
	for len(frame) > 0 {
		b := e.pool.Get()
		if b == nil {
			e.t.Fatal("the pool is empty")
		}
		frame = frame[copy(b.Append(min(len(frame), b.Tailroom())), frame):]
		if head == nil {
			head = b
		} else {
			head.Chain(b)
		}
	}
	return head
}

// receive waits for n frames of one queue and hands each to check, which must
// not keep it.
func (e *heldPort) receive(queue, n int, check func(i int, b *mbuf.Buf, frame []byte)) {
	e.t.Helper()
	got := 0
	eventually(e.t, fmt.Sprintf("%d frames on queue %d", n, queue), func() bool {
		for _, b := range e.bufs[:e.port.RxQueue(queue).Burst(e.bufs[:min(n-got, len(e.bufs))])] {
			var frame []byte
			for seg := b; seg != nil; seg = seg.Next() {
				frame = append(frame, seg.Bytes()...)
			}
			check(got, b, frame)
			b.Free()
			got++
		}
		return got == n
	})
}

// A round is fewer frames than a virtqueue of 256 descriptors holds, however
// many buffers each of them takes: nothing is dropped for want of room.
const (
	rounds     = 25
	roundOfOne = 40
)

// checkEcho sends frames of all lengths up to largest over every queue, wants
// them back on the queue with the same number, in order and byte by byte, and
// gives their number.
func (e *backEnd) checkEcho(pairs, largest int) (total int) {
	e.t.Helper()
	for round := range rounds {
		for queue := range pairs {
			frames := make([][]byte, roundOfOne)
			for i := range frames {
				frames[i] = plainFrame(total+i, 60+(7*total+311*i)%(largest-59))
			}
			e.send(queue, frames)
			e.receive(queue, len(frames), func(i int, b *mbuf.Buf, frame []byte) {
				if b.Flags != 0 || !bytes.Equal(frame, frames[i]) {
					e.t.Fatalf("round %d, queue %d, frame %d: flags %#x, %d bytes\n% x\nwant %d bytes\n% x",
						round, queue, i, b.Flags, len(frame), frame[:60], len(frames[i]), frames[i][:60])
				}
			})
			total += len(frames)
		}
	}
	return total
}

// plainFrame makes a frame that no protocol knows, of n bytes, which differ
// from number to number.
func plainFrame(number, n int) []byte {
	f := append([]byte{}, guestMAC...)
	f = append(f, 2, 0, 0, 0, 0, 9, 0x88, 0xb5)
	f = binary.BigEndian.AppendUint32(f, uint32(number))
	for i := len(f); i < n; i++ {
		f = append(f, byte(i*number+i>>8))
	}
	return f
}

// drain throws away what has arrived on the first queue and gives its number.
func (e *heldPort) drain() int {
	n := e.port.RxQueue(0).Burst(e.bufs[:])
	for _, b := range e.bufs[:n] {
		b.Free()
	}
	return n
}

// settle drains until nothing arrives any more.
func (e *heldPort) settle() {
	e.t.Helper()
	const calm = 200 * time.Millisecond
	last := time.Now()
	eventually(e.t, "quiet", func() bool {
		if e.drain() > 0 {
			last = time.Now()
		}
		return time.Since(last) > calm
	})
}
