package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"vionet/scripts/lab"
)

// wires are the far ends of QEMU's own devices.
type wires [2]*wire

// newWires makes the sockets, in dir.
func newWires(dir string) (w *wires, err error) {
	w = &wires{}
	for i := range w {
		if w[i], err = newWire(dir, i); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *wires) net(i int) lab.NIC { return lab.NIC{Net: w[i].Net} }

func (w *wires) begin(_ context.Context, i int, p part, size int) error { return w[i].begin(p, size) }

func (w *wires) end(_ context.Context, i int) error { return w[i].end() }

func (w *wires) count(_ context.Context, i int) (uint64, error) { return w[i].moved.Load(), nil }

func (w *wires) poller() int { return 0 }

func (w *wires) close() {
	for _, one := range w {
		if one != nil {
			one.conn.Close()
		}
	}
}

// wire is a pair of datagram sockets, one frame a datagram. QEMU has one of them, and
// takes no datagram as long as the guest has no buffer for it.
type wire struct {
	lab.Net
	conn *net.UnixConn
	far  *net.UnixAddr

	moved   atomic.Uint64
	stopped atomic.Bool
	work    sync.WaitGroup
	failed  error
}

func newWire(dir string, i int) (*wire, error) {
	near := filepath.Join(dir, fmt.Sprintf("wire%d.sock", i))
	far := filepath.Join(dir, fmt.Sprintf("qemu%d.sock", i))
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: near, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	return &wire{Net: lab.Datagram(far, near), conn: conn, far: &net.UnixAddr{Name: far, Net: "unixgram"}}, nil
}

// begin has a goroutine do a part with frames of size bytes.
func (w *wire) begin(p part, size int) error {
	w.stopped.Store(false)
	if err := w.conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	do := map[part]func([]byte) error{drains: w.drain, floods: w.flood, reflects: w.reflect}[p]
	w.work.Go(func() {
		if err := do(frame(size)); err != nil && !w.stopped.Load() {
			w.failed = fmt.Errorf("wire: %w", err)
		}
	})
	return nil
}

// end stops it.
func (w *wire) end() error {
	w.stopped.Store(true)
	err := w.conn.SetDeadline(time.Now())
	w.work.Wait()
	return errors.Join(err, w.failed)
}

// frame is one for everybody, of an experimental protocol.
func frame(size int) []byte {
	f := make([]byte, size)
	copy(f, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
	return f
}

// drain counts what comes.
func (w *wire) drain(buffer []byte) error {
	for {
		if _, _, err := w.conn.ReadFromUnix(buffer); err != nil {
			return err
		}
		w.moved.Add(1)
	}
}

// flood counts what goes.
func (w *wire) flood(frame []byte) error {
	for {
		if _, err := w.conn.WriteToUnix(frame, w.far); err != nil {
			return err
		}
		w.moved.Add(1)
	}
}

// The frames that go round, and how long nothing may come before they are taken for
// lost: a driver drops what it finds in its ring when it begins.
const (
	circling  = 64
	lostAfter = 20 * time.Millisecond
)

// reflect counts what comes, and sends it back.
func (w *wire) reflect(frame []byte) error {
	for {
		for range circling {
			if _, err := w.conn.WriteToUnix(frame, w.far); err != nil {
				return err
			}
		}
		if err := w.returnAll(frame); !errors.Is(err, os.ErrDeadlineExceeded) || w.stopped.Load() {
			return err
		}
	}
}

// returnAll returns frames until none comes any more.
func (w *wire) returnAll(buffer []byte) error {
	for n := 0; ; n++ {
		if n%circling == 0 {
			if err := w.conn.SetReadDeadline(time.Now().Add(lostAfter)); err != nil {
				return err
			}
		}
		size, _, err := w.conn.ReadFromUnix(buffer)
		if err != nil {
			return err
		}
		w.moved.Add(1)
		if _, err := w.conn.WriteToUnix(buffer[:size], w.far); err != nil {
			return err
		}
	}
}
