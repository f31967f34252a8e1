package guest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"vionet/bench/peer"
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
			unix.Close(one.fd)
		}
	}
}

// wire is a pair of datagram sockets, one frame a datagram. QEMU has one of them, and
// takes no datagram as long as the guest has no buffer for it. Ours blocks: its thread
// sleeps in the kernel, on the host's core, and is awake as soon as something comes.
type wire struct {
	lab.Net
	fd  int
	far unix.Sockaddr

	moved   atomic.Uint64
	stopped atomic.Bool
	work    sync.WaitGroup
	failed  error // of the goroutine, until it has ended
}

// patience is how long a socket blocks; frames that go round and do not come back in
// that time are lost: a driver drops what it finds in its ring when it begins.
const patience = 20 * time.Millisecond

func newWire(dir string, i int) (_ *wire, err error) {
	near := filepath.Join(dir, fmt.Sprintf("wire%d.sock", i))
	far := filepath.Join(dir, fmt.Sprintf("qemu%d.sock", i))
	w := &wire{Net: lab.Datagram(far, near), far: &unix.SockaddrUnix{Name: far}}
	if w.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	timeout := unix.NsecToTimeval(patience.Nanoseconds())
	if err := errors.Join(
		unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout),
		unix.Bind(w.fd, &unix.SockaddrUnix{Name: near}),
	); err != nil {
		unix.Close(w.fd)
		return nil, fmt.Errorf("wire: %w", err)
	}
	return w, nil
}

// begin has a goroutine do a part with frames of size bytes.
func (w *wire) begin(p part, size int) error {
	if err := unix.Connect(w.fd, w.far); err != nil {
		return fmt.Errorf("wire: QEMU has no socket: %w", err)
	}
	w.stopped.Store(false)
	do := map[part]func([]byte) error{drains: w.drain, floods: w.flood, reflects: w.reflect}[p]
	w.work.Go(func() {
		leave, err := peer.OnCore(hostCore)
		if err != nil {
			w.failed = err
			return
		}
		defer leave()
		w.failed = do(frame(size))
	})
	return nil
}

// end stops it.
func (w *wire) end() error {
	w.stopped.Store(true)
	w.work.Wait()
	if w.failed != nil {
		return fmt.Errorf("wire: %w", w.failed)
	}
	return nil
}

// frame is one for everybody, of an experimental protocol.
func frame(size int) []byte {
	f := make([]byte, size)
	copy(f, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
	return f
}

// moving calls read or write, whichever it is given, until it moved a frame or the wire
// is stopped; moved is false when the time is over.
func (w *wire) moving(call func(int, []byte) (int, error), b []byte) (moved bool, err error) {
	for !w.stopped.Load() {
		switch _, err := call(w.fd, b); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return false, nil
		default:
			return false, err
		}
	}
	return false, nil
}

// drain counts what comes.
func (w *wire) drain(buffer []byte) error { return w.repeat(unix.Read, buffer) }

// flood counts what goes.
func (w *wire) flood(frame []byte) error { return w.repeat(unix.Write, frame) }

func (w *wire) repeat(call func(int, []byte) (int, error), b []byte) error {
	for !w.stopped.Load() {
		moved, err := w.moving(call, b)
		if err != nil {
			return err
		}
		if moved {
			w.moved.Add(1)
		}
	}
	return nil
}

// circling is how many frames go round.
const circling = 64

// reflect counts what comes, and sends it back.
func (w *wire) reflect(frame []byte) error {
	for !w.stopped.Load() {
		for range circling {
			if _, err := w.moving(unix.Write, frame); err != nil {
				return err
			}
		}
		if err := w.returnAll(frame); err != nil {
			return err
		}
	}
	return nil
}

// returnAll returns frames until none comes any more.
func (w *wire) returnAll(buffer []byte) error {
	for {
		came, err := w.moving(unix.Read, buffer)
		if !came {
			return err
		}
		w.moved.Add(1)
		if _, err := w.moving(unix.Write, buffer); err != nil {
			return err
		}
	}
}
