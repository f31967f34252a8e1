package vhost

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"vionet/virtio"
)

// deviceProcess is the variable that makes the test program a loopback device on
// the socket that it names.
const deviceProcess = "VIONET_TEST_DEVICE"

// beDevice is the device until it is killed, or its standard input ends.
func beDevice(path string) {
	if _, err := StartLoopback(LoopbackConfig{Path: path, Packed: true}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startDevice starts the process, and gives what kills it.
func startDevice(tb testing.TB, path string) (kill func()) {
	tb.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), deviceProcess+"="+path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	return func() {
		cmd.Process.Kill()
		cmd.Wait()
		stdin.Close()
	}
}

// A device in a process of its own is killed at any moment of its work. Frames
// that it had in hand may be lost with it; none comes twice or out of order, and
// no buffer is lost.
func TestB29DeviceProcessIsKilled(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked, virtio.RingPacked | virtio.NetMrgRxbuf | virtio.EventIdx} {
		t.Run(kind.String(), func(t *testing.T) {
			path := socketPath(t)
			kill := startDevice(t, path)
			defer func() { kill() }()
			waitForSocket(t, path)
			var f *Frontend
			eventually(t, "a connection", func() (ok bool) {
				var err error
				f, err = Dial(path, FrontendConfig{QueueSize: rigSize, Log: logTo(t)})
				return err == nil
			})
			f.pause = time.Millisecond
			r := newRig(t, f, 1)
			r.start(plain|kind, 1)
			sent, last, received := 0, -1, 0
			take := func() bool {
				_, frame, ok := r.poll(0)
				if !ok {
					return false
				}
				n, err := strconv.Atoi(string(frame[14:22]))
				if err != nil || n <= last || n >= sent || !bytes.Equal(frame, frameOf(n, 90)) {
					t.Fatalf("frame %q after %d of %d", frame[14:22], last, sent)
				}
				last = n
				received++
				return true
			}
			pump := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); {
					for range 8 {
						if r.send(0, virtio.NetHeader{}, frameOf(sent, 90)) {
							sent++
						}
					}
					for take() {
					}
				}
			}
			for death := range 12 {
				pump(time.Duration(5+7*death%11) * time.Millisecond)
				kill()
				kill = startDevice(t, path)
				before := received
				eventually(t, "frames after a death", func() bool { pump(time.Millisecond); return received > before+100 })
			}
			p := &r.pairs[0]
			eventually(t, "all buffers back", func() bool {
				for take() {
				}
				p.tx.harvest(p.done[:])
				return p.tx.room() == rigSize && p.rx.room() == 0
			})
			t.Logf("%d frames sent, %d lost with 12 devices", sent, sent-received)
		})
	}
}
