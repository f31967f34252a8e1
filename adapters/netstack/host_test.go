package netstack

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"vionet/port"
)

// newHosts makes two hosts at the ends of a cable: 192.0.2.1 and .2, and the same
// of 2001:db8::.
func newHosts(t *testing.T) (near, far *Host) {
	t.Helper()
	pool := newPool(t, 8192)
	nearPort, farPort := cable(t)
	newHost := func(p port.Port, addresses ...string) *Host {
		cfg := HostConfig{Link: Config{Pool: pool}}
		for _, text := range addresses {
			cfg.Addresses = append(cfg.Addresses, netip.MustParsePrefix(text))
		}
		h, err := NewHost(p, cfg)
		must(t, err)
		t.Cleanup(func() { must(t, errors.Join(h.Close(), h.Close())) })
		return h
	}
	return newHost(nearPort, "192.0.2.1/24", "2001:db8::1/64"), newHost(farPort, "192.0.2.2/24", "2001:db8::2/64")
}

func TestHostDialsAndListens(t *testing.T) {
	near, far := newHosts(t)
	for _, c := range []struct{ listen, dial string }{
		{"192.0.2.1:80", "192.0.2.1:80"}, {"0.0.0.0:81", "192.0.2.1:81"},
		{"[2001:db8::1]:80", "[2001:db8::1]:80"}, {"[::]:82", "[2001:db8::1]:82"}, {"[::]:83", "192.0.2.1:83"},
	} {
		l, err := near.Listen(netip.MustParseAddrPort(c.listen))
		must(t, err)
		go func() {
			if conn, err := l.Accept(); err == nil {
				io.WriteString(conn, "good morning")
				conn.Close()
			}
		}()
		conn, err := far.DialContext(t.Context(), "tcp", c.dial)
		must(t, err)
		text, err := io.ReadAll(conn)
		if string(text) != "good morning" || err != nil {
			t.Errorf("%s: %q, %v", c.dial, text, err)
		}
		conn.Close()
		l.Close()
	}
}

func TestHostRefuses(t *testing.T) {
	near, far := newHosts(t)
	address := netip.MustParseAddrPort("192.0.2.1:80")
	l, err := near.Listen(address)
	must(t, err)
	defer l.Close()
	if _, err := near.Listen(address); err == nil || !strings.Contains(err.Error(), "listen on 192.0.2.1:80") {
		t.Errorf("listening twice: %v", err)
	}
	for _, c := range []struct{ network, address string }{{"udp", "192.0.2.1:80"}, {"tcp", "server:80"}, {"tcp", "192.0.2.1"}} {
		if _, err := far.DialContext(t.Context(), c.network, c.address); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("dialling %s %s: %v", c.network, c.address, err)
		}
	}
	if _, err := far.DialContext(t.Context(), "tcp", "192.0.2.1:81"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("dialling a port that is closed: %v", err)
	}
	for what, cfg := range map[string]HostConfig{"an address": {Addresses: make([]netip.Prefix, 1)}, "a gateway": {Gateways: make([]netip.Addr, 1)}} {
		p, other := cable(t)
		defer other.Close()
		cfg.Link.Pool = newPool(t, 4096)
		if _, err := NewHost(p, cfg); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("%s that is none: %v", what, err)
		}
		if err := p.Start(); !errors.Is(err, port.ErrClosed) {
			t.Errorf("the port of a host that was not made: %v", err)
		}
	}
}
