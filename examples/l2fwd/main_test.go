package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"vionet/examples/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What one host sends reaches the other one, with new addresses.
func TestForwarding(t *testing.T) {
	left, right := host.New(t, 1), host.New(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx, []string{left.Path, right.Path}, 0, io.Discard) }()
	payload := "\x88\xb5" + "the payload stays as it is, and so does all that is behind it"
	var senders []string
	for i, way := range []struct{ from, to *host.Host }{{left, right}, {right, left}} {
		way.from.Send(0, []byte("\x02\x00\x00\x00\x00\xaa\x02\x00\x00\x00\x00\xbb"+payload))
		got := string(way.to.Receive(0))
		leaving := 1 - i
		if want := "\x02\x00\x00\x00\x00" + string(rune(leaving)); got[:6] != want || got[12:] != payload {
			t.Errorf("port %d sent %q", leaving, got)
		}
		senders = append(senders, got[6:12])
	}
	if senders[0] == senders[1] || senders[0] == "\x02\x00\x00\x00\x00\xbb" {
		t.Errorf("the senders are %q, want the addresses of the two ports", senders)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestForwardingOnEmbeddedDevices(t *testing.T) {
	var out bytes.Buffer
	const count = 10_000
	if err := run(t.Context(), nil, count, &out); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, m := range regexp.MustCompile(`sent (\d+), dropped 0`).FindAllStringSubmatch(out.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		sent += n
	}
	if sent < count {
		t.Errorf("printed\n%s", out.String())
	}
}

func TestPortsComeInPairs(t *testing.T) {
	hosts := []string{host.New(t, 1).Path, host.New(t, 1).Path, host.New(t, 1).Path}
	for _, names := range [][]string{hosts[:1], hosts} {
		if err := run(t.Context(), names, 0, io.Discard); err == nil {
			t.Errorf("%d devices were taken", len(names))
		}
	}
}
