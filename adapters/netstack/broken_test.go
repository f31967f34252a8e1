package netstack

import (
	"errors"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// A device that breaks a rule costs its queue, which the endpoint tells; Stop and
// Start bring it back, under the same stack.
func TestBrokenQueue(t *testing.T) {
	dev := fakedev.New(fakedev.Config{})
	p, err := driver.Open(dev, driver.Options{})
	must(t, err)
	h := newHost(t, p, 2, Config{})
	conn, err := gonet.DialUDP(h.stack, &tcpip.FullAddress{NIC: nic, Addr: h.ip[0], Port: 9}, nil, header.IPv4ProtocolNumber)
	must(t, err)
	defer conn.Close()
	receive := func(text string) {
		t.Helper()
		must(t, dev.Deliver(0, virtio.NetHeader{}, udpFrame(h.link.LinkAddress(), text, false, 0)))
		b := make([]byte, 64)
		if n, err := conn.Read(b); err != nil || string(b[:n]) != text {
			t.Fatalf("received %q, %v", b[:n], err)
		}
	}
	receive("before")

	dev.Queue(virtio.RxQueue(0)).Use(65535, 64)
	var rule *ring.RuleError
	eventually(t, "the error", func() bool { return errors.As(h.link.Err(), &rule) })
	must(t, errors.Join(h.link.Stop(), h.link.Start(), h.link.Err()))
	receive("after")
}

// A device without interrupts is refused with its own error.
func TestNoInterrupts(t *testing.T) {
	p, err := driver.Open(fakedev.New(fakedev.Config{NoInterrupts: true}), driver.Options{})
	must(t, err)
	defer p.Close()
	if _, err := New(p, Config{Pool: newPool(t, 4096)}); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("started without interrupts: %v", err)
	}
}
