package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"

	"vionet/examples/internal/device"
	"vionet/examples/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var servers = [][6]byte{{2, 0, 0, 0, 0, 0x11}, {2, 0, 0, 0, 0, 0x12}, {2, 0, 0, 0, 0, 0x13}}

// A flow goes to one server, whichever queue it comes in on, and the flows to all.
func TestFlowsKeepTheirServer(t *testing.T) {
	const queues, flows = 2, 60
	far := host.New(t, queues)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- balance(ctx, options{devices: []string{far.Path}, queues: queues, servers: servers}, io.Discard)
	}()
	share := map[string]int{}
	for flow := range uint16(flows) {
		sent := device.Datagram(64, net.HardwareAddr{2, 0, 0, 0, 0, 1}, flow)
		var server string
		for q := range queues {
			far.Send(q, sent)
			got := far.Receive(q)
			if !bytes.Equal(got[12:], sent[12:]) {
				t.Fatalf("flow %d: more than the addresses was changed: %q", flow, got)
			}
			if q > 0 && string(got[:6]) != server {
				t.Errorf("flow %d goes to %q on queue %d, and to %q on another", flow, got[:6], q, server)
			}
			server = string(got[:6])
		}
		share[server]++
	}
	for _, mac := range servers {
		if n := share[string(mac[:])]; n < flows/len(servers)/3 {
			t.Errorf("server % x got %d flows of %d", mac, n, flows)
		}
	}
	if len(share) != len(servers) {
		t.Errorf("the flows went to %d servers", len(share))
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBalancingOnTheEmbeddedDevice(t *testing.T) {
	var out bytes.Buffer
	const queues, count = 2, 5000
	if err := balance(t.Context(), options{queues: queues, servers: servers, count: count}, &out); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for line := range bytes.Lines(out.Bytes()) {
		var mac string
		var n int
		if _, err := fmt.Sscanf(string(line), "server %s %d frames", &mac, &n); err != nil || n == 0 {
			t.Errorf("printed %q, %v", line, err)
		}
		sum += n
	}
	if sum < queues*count {
		t.Errorf("%d frames were forwarded, want %d at least", sum, queues*count)
	}
}

func TestNoServer(t *testing.T) {
	if err := balance(t.Context(), options{queues: 1}, io.Discard); err == nil {
		t.Error("there is no server, and no error")
	}
}
