// Package host is the other end of the device in the tests of examples: a
// vhost-user back end that a test sends and receives frames through.
package host

import (
	"path/filepath"
	"testing"
	"time"

	"vionet/vhost"
)

// Host is a back end. Its methods are for the test's goroutine.
type Host struct {
	Path string // of its socket
	t    testing.TB
	back *vhost.Backend
}

// New makes a back end with that many queue pairs, which the end of the test
// closes.
func New(t testing.TB, pairs int) *Host {
	t.Helper()
	h := &Host{Path: filepath.Join(t.TempDir(), "socket"), t: t}
	var err error
	if h.back, err = vhost.Listen(h.Path, vhost.BackendConfig{Pairs: pairs}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.back.Close() })
	return h
}

// Send puts a frame into a receive queue of the program, as soon as it is there.
func (h *Host) Send(pair int, frame []byte) {
	h.t.Helper()
	h.until("the program takes a frame", func() bool {
		return h.back.RxQueue(pair).Enqueue([]vhost.Frame{{Data: frame}}) == 1
	})
}

// Receive waits for the next frame on a transmit queue of the program.
func (h *Host) Receive(pair int) []byte {
	h.t.Helper()
	frames := []vhost.Frame{{Data: make([]byte, 0, 2048)}}
	h.until("the program sends a frame", func() bool {
		return h.back.TxQueue(pair).Dequeue(frames) == 1
	})
	return frames[0].Data
}

func (h *Host) until(what string, ok func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	h.t.Fatalf("%s: does not come about", what)
}
