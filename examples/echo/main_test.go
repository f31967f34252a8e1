package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"vionet/examples/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEchoOnTheEmbeddedDevice(t *testing.T) {
	const count = 10_000
	if n, err := echo(t.Context(), nil, count); n < count || err != nil {
		t.Errorf("%d frames were returned, %v", n, err)
	}
}

// What a host sends comes back with its addresses exchanged.
func TestEchoTurnsFrames(t *testing.T) {
	far := host.New(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := echo(ctx, []string{far.Path}, 0)
		done <- err
	}()
	pad := string(make([]byte, 40))
	for name, f := range map[string]struct{ sent, want string }{
		"IPv4": {
			"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x08\x00" + "E...ttl-prot" + "\x0a\x00\x00\x01" + "\x0a\x00\x00\x02" + pad,
			"\x02\x00\x00\x00\x00\x0a\x02\x00\x00\x00\x00\x0b\x08\x00" + "E...ttl-prot" + "\x0a\x00\x00\x02" + "\x0a\x00\x00\x01" + pad,
		},
		"IPv6": {
			"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x86\xdd" + "`...lnnh" + "fe80 from here.." + "fe80 to there..." + pad,
			"\x02\x00\x00\x00\x00\x0a\x02\x00\x00\x00\x00\x0b\x86\xdd" + "`...lnnh" + "fe80 to there..." + "fe80 from here.." + pad,
		},
		"neither": {
			"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x88\xb5" + "left as it is" + pad,
			"\x02\x00\x00\x00\x00\x0a\x02\x00\x00\x00\x00\x0b\x88\xb5" + "left as it is" + pad,
		},
		"an IPv4 header cut short": {
			"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x08\x00" + "E..",
			"\x02\x00\x00\x00\x00\x0a\x02\x00\x00\x00\x00\x0b\x08\x00" + "E..",
		},
	} {
		far.Send(0, []byte(f.sent))
		if got := far.Receive(0); string(got) != f.want {
			t.Errorf("%s: %q came back, want %q", name, got, f.want)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestEchoWithoutADevice(t *testing.T) {
	if _, err := echo(t.Context(), []string{"/nonexistent/socket"}, 0); err == nil {
		t.Error("a socket that is not there was opened")
	}
}
