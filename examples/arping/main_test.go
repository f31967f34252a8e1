package main

import (
	"bytes"
	"context"
	"net/netip"
	"regexp"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vionet/examples/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ours   = netip.MustParseAddr("192.0.2.1")
	theirs = netip.MustParseAddr("192.0.2.2")
)

// On the embedded device it asks itself, and answers.
func TestArpingItself(t *testing.T) {
	var out bytes.Buffer
	n, err := arping(t.Context(), options{source: ours, target: ours, count: 3, wait: 20 * time.Second}, &out)
	if n != 3 || err != nil {
		t.Errorf("%d answers, %v", n, err)
	}
	line := regexp.MustCompile(`(?m)^192\.0\.2\.1 is at [0-9a-f:]{17} \(.*s\)$`)
	if got := len(line.FindAllString(out.String(), -1)); got != 3 {
		t.Errorf("printed\n%s", out.String())
	}
}

// Another station gets the question, answers, and asks back.
func TestArpingAHost(t *testing.T) {
	far := host.New(t, 1)
	var out bytes.Buffer
	done := make(chan error)
	go func() {
		n, err := arping(t.Context(), options{devices: []string{far.Path}, source: ours, target: theirs, count: 1, wait: 20 * time.Second}, &out)
		if n != 1 {
			t.Errorf("%d answers", n)
		}
		done <- err
	}()
	question := far.Receive(0)
	asker := string(question[6:12])
	want := "\xff\xff\xff\xff\xff\xff" + asker + "\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01" +
		asker + "\xc0\x00\x02\x01" + "\xff\xff\xff\xff\xff\xff" + "\xc0\x00\x02\x02" + string(make([]byte, 18))
	if string(question) != want {
		t.Errorf("it asked %q, want %q", question, want)
	}

	const mac = "\x02\x00\x00\x00\x00\x99"
	arp := func(op, target string) []byte {
		return []byte(asker + mac + "\x08\x06\x00\x01\x08\x00\x06\x04\x00" + op + mac + "\xc0\x00\x02\x02" + asker + target)
	}
	far.Send(0, []byte(asker+mac+"\x08\x00 this is no ARP, and is not looked at, whatever it says"))
	far.Send(0, arp("\x01", "\xc0\x00\x02\x01")) // who has 192.0.2.1?
	far.Send(0, arp("\x01", "\xc0\x00\x02\x03")) // and 192.0.2.3? Nobody.
	if got, want := string(far.Receive(0)), mac+asker+"\x08\x06\x00\x01\x08\x00\x06\x04\x00\x02"+
		asker+"\xc0\x00\x02\x01"+mac+"\xc0\x00\x02\x02"; got[:42] != want {
		t.Errorf("it answered %q, want %q", got, want)
	}
	far.Send(0, arp("\x02", "\xc0\x00\x02\x01")) // 192.0.2.2 is at mac
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !bytes.HasPrefix(out.Bytes(), []byte("192.0.2.2 is at 02:00:00:00:00:99 (")) {
		t.Errorf("printed\n%s", out.String())
	}
}

// Nobody answers, and Ctrl-C is pressed.
func TestArpingInVain(t *testing.T) {
	var out bytes.Buffer
	n, err := arping(t.Context(), options{source: ours, target: theirs, count: 2, wait: time.Millisecond}, &out)
	if n != 0 || err != nil || out.String() != "no answer from 192.0.2.2\nno answer from 192.0.2.2\n" {
		t.Errorf("%d answers, %v, printed\n%s", n, err, out.String())
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if n, err := arping(ctx, options{source: ours, target: theirs, count: 2, wait: time.Hour}, &out); n != 0 || err != nil {
		t.Errorf("interrupted: %d answers, %v", n, err)
	}
	ctx, stop = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if _, err := arping(ctx, options{source: ours, target: theirs, count: 2, wait: time.Millisecond, interval: time.Hour}, &out); err != nil {
		t.Errorf("interrupted between two questions: %v", err)
	}
	if _, err := arping(t.Context(), options{source: ours, target: netip.IPv6Loopback()}, &out); err == nil {
		t.Error("an IPv6 address was asked for")
	}
}
