package lab

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
)

// maxFrames bounds what a Cable keeps; frames after that are lost.
const maxFrames = 1 << 14

// maxFrame is the largest frame that a Cable carries, in bytes: a whole
// segmentation offload with its headers.
const maxFrame = 1<<16 + 256

// Cable is a network cable with one end in the test's hands. It takes every
// frame that arrives, from the moment it is made, until it is closed; frames
// that the test sends itself do not come back. All methods may be called from
// any goroutine.
type Cable struct {
	// Net plugs a guest's function into the other end.
	Net Net

	wire wire
	done chan struct{}

	mu     sync.Mutex
	frames [][]byte
	news   chan struct{} // closed, and replaced, when a frame arrives
}

// wire is the socket below a Cable.
type wire interface {
	// receive waits for one frame and puts it into b; an error is the end.
	receive(b []byte) (int, error)
	send(frame []byte) error
	Close() error
}

// newCable starts to take frames off the wire.
func newCable(w wire) *Cable {
	c := &Cable{wire: w, done: make(chan struct{}), news: make(chan struct{})}
	go c.take()
	return c
}

// NewCable makes a cable of two Unix datagram sockets in dir, one frame a
// datagram. It needs no root; it carries no offloads. One guest at a time may
// be plugged in.
func NewCable(dir string) (*Cable, error) {
	far := filepath.Join(dir, "guest.sock")
	near := filepath.Join(dir, "test.sock")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: near, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("cable: %w", err)
	}
	c := newCable(datagramWire{UnixConn: conn, far: &net.UnixAddr{Name: far, Net: "unixgram"}})
	c.Net = Datagram(far, near)
	return c, nil
}

// take keeps what arrives until the wire is closed.
func (c *Cable) take() {
	defer close(c.done)
	b := make([]byte, maxFrame)
	for {
		n, err := c.wire.receive(b)
		if err != nil {
			return
		}
		c.keep(bytes.Clone(b[:n]))
	}
}

// keep adds a frame to those that arrived.
func (c *Cable) keep(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.frames) == maxFrames {
		return
	}
	c.frames = append(c.frames, frame)
	close(c.news)
	c.news = make(chan struct{})
}

// Send puts one frame, from the destination address on and without a check
// sequence, on the cable.
func (c *Cable) Send(frame []byte) error {
	if err := c.wire.send(frame); err != nil {
		return fmt.Errorf("send %d bytes: %w", len(frame), err)
	}
	return nil
}

// Frames gives the frames that arrived so far, oldest first, each with its
// VLAN tag if it had one. The caller must not write to them.
func (c *Cable) Frames() [][]byte {
	frames, _ := c.snapshot()
	return frames
}

// WaitFrames waits until at least n frames arrived and gives all of them. It
// fails, and gives what is there, when the context or a minute is over.
func (c *Cable) WaitFrames(ctx context.Context, n int) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		frames, news := c.snapshot()
		if len(frames) >= n {
			return frames, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return frames, fmt.Errorf("%d of %d frames arrived: %w", len(frames), n, ctx.Err())
		}
	}
}

// snapshot gives the frames and the channel that tells of the next.
func (c *Cable) snapshot() ([][]byte, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames), c.news
}

// Close takes the cable out of the test's hands. The frames stay. It may be
// called again.
func (c *Cable) Close() {
	_ = c.wire.Close()
	<-c.done
}

// datagramWire is a wire of two Unix datagram sockets.
type datagramWire struct {
	*net.UnixConn
	far *net.UnixAddr
}

func (w datagramWire) receive(b []byte) (int, error) {
	n, _, err := w.ReadFromUnix(b)
	return n, err
}

func (w datagramWire) send(frame []byte) error {
	_, err := w.WriteToUnix(frame, w.far)
	return err
}
