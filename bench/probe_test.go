package bench

import (
	"strings"
	"testing"
	"time"

	"vionet/bench/frames"
)

// A frame gives its stamp back in its own turn alone.
func TestStamps(t *testing.T) {
	frame, err := frames.UDP(7, 512)
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{turn: 3}
	if _, ok := p.stampOf(frame); ok {
		t.Error("a frame without a stamp has one")
	}
	p.putStamp(frame, 1234*time.Microsecond)
	if stamp, ok := p.stampOf(frame); !ok || stamp != 1234*time.Microsecond {
		t.Errorf("stamp %v %v, want 1.234ms", stamp, ok)
	}
	p.turn++
	if _, ok := p.stampOf(frame); ok {
		t.Error("the stamp of the turn before counts")
	}
	if _, ok := p.stampOf(frame[:frames.Headers+stampLength-1]); ok {
		t.Error("half a stamp counts")
	}
}

// A probe whose switch does not start says why, and leaves nothing behind.
func TestProbeWithoutASwitch(t *testing.T) {
	c := switching{vionet: "/nonexistent/vionet"}
	for _, end := range wakeEnds {
		if _, err := end.start(t.Context(), c, t.TempDir(), "busy"); err == nil || !strings.Contains(err.Error(), "vionet ended (exit status 127)") {
			t.Errorf("%s: %v", end.name, err)
		}
	}
}
