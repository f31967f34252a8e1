package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/scripts/lab"
)

// What the embedded device returns is in the file, as tshark reads it.
func TestDump(t *testing.T) {
	o := options{out: filepath.Join(t.TempDir(), "x.pcapng"), count: 8, snaplen: 40, queues: 1}
	begin := time.Now()
	seen, written, err := dump(t.Context(), o)
	if err != nil || seen != 8 || written != 8 {
		t.Fatalf("%d frames received, %d written, %v", seen, written, err)
	}
	end := time.Now()
	rows := lab.Tshark(t, o.out, "frame.interface_name", "frame.interface_queue", "frame.packet_flags_direction", "frame.len", "frame.cap_len", "eth.type", "frame.time_epoch")
	for i, row := range rows {
		want := []string{"port0-rx-q0", "0", "0x00000001", "75", "40", "0x88b5"}
		last := len(row) - 1
		if diff := cmp.Diff(want, row[:last]); diff != "" {
			t.Errorf("frame %d (-want +got)\n%s", i, diff)
		}
		if at := row[last]; at < stamp(begin) || at > stamp(end) {
			t.Errorf("frame %d at %s, not from %s to %s", i, at, stamp(begin), stamp(end))
		}
	}
	if len(rows) != 8 {
		t.Errorf("tshark sees %d frames", len(rows))
	}
}

// stamp is a time as tshark writes it.
func stamp(at time.Time) string { return fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()) }

// Frames that do not match are counted alone, and the file is whole when it ends.
func TestDumpWithAFilter(t *testing.T) {
	o := options{out: filepath.Join(t.TempDir(), "x.pcapng"), queues: 2, filter: []string{"arp"}}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	seen, written, err := dump(ctx, o)
	if err != nil || seen != 8 || written != 0 {
		t.Errorf("%d frames received, %d written, %v", seen, written, err)
	}
	if text, err := os.ReadFile(o.out); err != nil || !strings.Contains(string(text), "port0-rx-q1") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestDumpRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.pcapng")
	for want, o := range map[string]options{
		"TERM":              {out: out, queues: 1, filter: []string{"nonsense"}},
		"must be 1 to":      {out: out, queues: 1, snaplen: 70_000},
		"no such file":      {out: filepath.Join(t.TempDir(), "none", "x"), queues: 1},
		"/nonexistent/sock": {out: out, queues: 1, devices: []string{"/nonexistent/sock"}},
	} {
		if _, _, err := dump(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
