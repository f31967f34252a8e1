package main

import (
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vionet/vhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every frame that is counted was sent: over the embedded device, and over a
// socket to one that counts what comes back.
func TestBlast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "count.sock")
	counted, err := vhost.StartLoopback(vhost.LoopbackConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer counted.Close()
	const count = 20_000
	for name, o := range map[string]options{
		"zero copy": {}, "copying": {copying: true}, "asleep": {sleep: true}, "at a rate": {rate: 200_000}, "large": {size: 1456},
	} {
		o.count, o.seconds = count, 60
		if o.size == 0 {
			o.size = 64
		}
		for _, socket := range []string{"", path} {
			o.devices = nil
			if socket != "" {
				o.devices = []string{socket}
			}
			before := counted.Stats()
			sent, took, err := blast(t.Context(), o)
			if err != nil || sent != count || took <= 0 {
				t.Errorf("%s: %d frames of %d in %v, %v", name, sent, count, took, err)
			}
			if socket == "" {
				continue
			}
			seen := func() uint64 {
				s := counted.Stats()
				return s.Frames + s.Dropped - before.Frames - before.Dropped
			}
			for deadline := time.Now().Add(10 * time.Second); seen() < count && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			if n := seen(); n != count {
				t.Errorf("%s: the device saw %d frames, want %d", name, n, count)
			}
		}
	}
	if _, _, err := blast(t.Context(), options{size: 40}); err == nil {
		t.Error("frames of 40 bytes were sent")
	}
}
