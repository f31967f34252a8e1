package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestLogLines(t *testing.T) {
	var out bytes.Buffer
	l, err := newLogs(&out, "console", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Info("virtio: using simple Tx path on port 0")
	l.Debug("nobody asked for this")
	if got := out.String(); got != "virtio: using simple Tx path on port 0\n" {
		t.Errorf("%q", got)
	}

	out.Reset()
	if l, err = newLogs(&out, "json", nil); err != nil {
		t.Fatal(err)
	}
	l.Info("hello")
	var line struct{ Time, Level, Message string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Message != "hello" || line.Level != "info" || line.Time == "" {
		t.Errorf("%v: %s", err, out.Bytes())
	}
}

func TestLogLevels(t *testing.T) {
	for _, tt := range []struct {
		options     []string
		info, debug bool
	}{
		{nil, true, false}, {[]string{"8"}, true, true}, {[]string{"pmd.net.virtio.*:debug"}, true, true},
		{[]string{"debug", "lib.eal,error"}, false, false}, {[]string{"notice"}, true, false}, {[]string{"warning"}, false, false},
	} {
		var out bytes.Buffer
		l, err := newLogs(&out, "console", tt.options)
		if err != nil {
			t.Fatal(err)
		}
		l.Info("i")
		l.Debug("d")
		want := map[bool]string{true: "i\n"}[tt.info] + map[bool]string{true: "d\n"}[tt.debug]
		if out.String() != want {
			t.Errorf("%q: %q, want %q", tt.options, out.String(), want)
		}
	}
	for _, bad := range []string{"9", "0", "loud", "", "global:"} {
		if _, err := newLogs(&bytes.Buffer{}, "console", []string{bad}); err == nil {
			t.Errorf("level %q was accepted", bad)
		}
	}
}
