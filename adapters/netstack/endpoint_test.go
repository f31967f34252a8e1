package netstack

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

func TestNewRefuses(t *testing.T) {
	small, err := mbuf.NewPool(newPool(t, 8).Memory(), mbuf.PoolConfig{Count: 8, BufSize: 200})
	must(t, err)
	defer small.Close()
	for _, c := range []struct {
		name  string
		cfg   Config
		close bool
		is    error
		says  string
	}{
		{"no pool", Config{}, false, port.ErrInvalid, "pool"},
		{"MTU", Config{Pool: newPool(t, 4096), MTU: 70000}, false, port.ErrInvalid, "MTU 70000"},
		{"queues", Config{Pool: newPool(t, 4096), Queues: 3}, false, port.ErrInvalid, "the port has 2"},
		{"spin", Config{Pool: newPool(t, 4096), Spin: -1}, false, port.ErrInvalid, "negative"},
		{"buffers", Config{Pool: small}, false, port.ErrInvalid, "make them 262 or more"},
		{"pool too small", Config{Pool: newPool(t, 256)}, false, port.ErrInvalid, "it takes "},
		{"closed port", Config{Pool: newPool(t, 4096)}, true, port.ErrClosed, "netstack on "},
	} {
		t.Run(c.name, func(t *testing.T) {
			near, far := virtual(vhost.PortConfig{Queues: 2}, driver.Options{})(t)
			defer near.Close()
			defer far.Close()
			if c.close {
				must(t, far.Close())
			}
			e, err := New(far, c.cfg)
			if e != nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v and %q", err, c.is, c.says)
			}
		})
	}
}

func TestAttachedTwice(t *testing.T) {
	near, far := cable(t)
	defer far.Close()
	h := newHost(t, near, 1, Config{})
	other := newStack()
	defer other.Destroy()
	if err := h.link.AddTo(other, nic, stack.NICOptions{}); !errors.Is(err, port.ErrState) || !strings.Contains(err.Error(), "make an endpoint on another port") {
		t.Errorf("attached twice: %v", err)
	}
	if _, err := New(near, Config{Pool: h.link.cfg.Pool}); !errors.Is(err, port.ErrState) {
		t.Errorf("a second endpoint on the port: %v", err)
	}
	if _, err := NewHost(near, HostConfig{Link: Config{Pool: h.link.cfg.Pool}}); !errors.Is(err, port.ErrState) {
		t.Errorf("a host on the port: %v", err)
	}
	if err := h.send(t); err != nil {
		t.Errorf("the first one sends no more: %v", err)
	}
	h.stack.RemoveNIC(nic)
	if err := h.link.AddTo(h.stack, nic, stack.NICOptions{}); !errors.Is(err, port.ErrClosed) {
		t.Errorf("after its interface was removed: %v", err)
	}
	if err := near.Start(); !errors.Is(err, port.ErrClosed) {
		t.Errorf("the port is not closed: %v", err)
	}
}

func TestNumberInUse(t *testing.T) {
	near, far := cable(t)
	h := newHost(t, near, 1, Config{})
	second, err := New(far, Config{Pool: newPool(t, 4096)})
	must(t, err)
	defer second.Close()
	for _, id := range []tcpip.NICID{0, nic} {
		if err := second.AddTo(h.stack, id, stack.NICOptions{}); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("interface %d: %v", id, err)
		}
	}
	must(t, second.AddTo(h.stack, nic+1, stack.NICOptions{}))
}

// An endpoint that a link layer of the user's own stands in front of, or that is
// detached for a while, delivers to one dispatcher at a time.
func TestAttachAgain(t *testing.T) {
	near, far := cable(t)
	raw := holdPort(t, far, port.Config{})
	h := newHost(t, near, 2, Config{Pool: raw.pool})
	d := &collector{got: make(chan string, 16)}
	h.link.Attach(d) // ignored
	h.link.Attach(nil)
	h.link.Attach(d)
	raw.send(udpFrame(h.link.LinkAddress(), "to the second", false, 0), 0)
	if got := <-d.got; got != "to the second" {
		t.Errorf("received %q", got)
	}
}

// collector takes the text of datagrams.
type collector struct{ got chan string }

func (c *collector) DeliverNetworkPacket(_ tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	data, _ := pkt.Data().PullUp(pkt.Data().Size())
	c.got <- string(data[28:])
}

func (c *collector) DeliverLinkPacket(tcpip.NetworkProtocolNumber, *stack.PacketBuffer) {}

func TestMTU(t *testing.T) {
	near, far := cable(t)
	defer far.Close()
	h := newHost(t, near, 1, Config{MTU: 9000})
	for _, c := range []struct{ set, want uint32 }{{1400, 1400}, {9000, 9000}, {9001, 9000}} {
		if h.stack.SetNICMTU(nic, c.set); h.link.MTU() != c.want {
			t.Errorf("MTU %d is %d, want %d", c.set, h.link.MTU(), c.want)
		}
	}
}

// A station with another address is reached under that.
func TestSetLinkAddress(t *testing.T) {
	nearPort, farPort := virtual(vhost.PortConfig{}, driver.Options{})(t)
	near, far := newHost(t, nearPort, 1, Config{}), newHost(t, farPort, 2, Config{})
	far.serve()
	const address = "\x02\x00\x00\x00\x12\x34"
	if err := far.stack.SetNICAddress(nic, address); err != nil {
		t.Fatal(err)
	}
	must(t, get(near.client(far, 0), 1<<16))
	if far.link.LinkAddress() != address || far.link.Stats().Strays != 0 {
		t.Errorf("address %v, %d strays", far.link.LinkAddress(), far.link.Stats().Strays)
	}
}

// A sender waits while the ring is full, and every datagram that was not refused
// arrives at the other end.
func TestBackPressure(t *testing.T) {
	for name, tie := range map[string]ends{"cable": cable, "virtio": virtual(vhost.PortConfig{Packed: true}, driver.Options{})} {
		t.Run(name, func(t *testing.T) {
			nearPort, farPort := tie(t)
			raw := holdPort(t, nearPort, port.Config{})
			h := newHost(t, farPort, 2, Config{Pool: raw.pool})
			conn, err := gonet.DialUDP(h.stack, nil, &tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4([4]byte{192, 0, 2, 1}), Port: 9}, header.IPv4ProtocolNumber)
			must(t, err)
			defer conn.Close()
			if err := h.stack.AddStaticNeighbor(nic, header.IPv4ProtocolNumber, tcpip.AddrFrom4([4]byte{192, 0, 2, 1}), "\x02\x00\x00\x00\x00\x01"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the link", func() bool { return h.link.Port().Link().Up })

			const count = 4000
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for range count {
					// Like the kernel, the stack keeps a full ring to itself.
					conn.Write([]byte("datagram"))
				}
			}()
			eventually(t, "a sender that waits", func() bool { return h.link.Stats().Waits > 0 })
			received := 0
			var pkts [burst]*mbuf.Buf
			eventually(t, "all datagrams", func() bool {
				got := raw.port.RxQueue(0).Burst(pkts[:])
				for _, b := range pkts[:got] {
					if b.PacketLen() == 14+20+8+8 {
						received++
					}
					b.Free()
				}
				select {
				case <-sent:
					return received == count-int(h.link.Stats().Refused)
				default:
					return false
				}
			})
			if received < count/2 {
				t.Errorf("%d of %d were sent, %+v", received, count, h.link.Stats())
			}
		})
	}
}

// Where nobody takes what is sent, the sender is told.
func TestRefused(t *testing.T) {
	t.Run("nobody receives", func(t *testing.T) {
		near, far := cable(t)
		raw := holdPort(t, far, port.Config{})
		h := newHost(t, near, 1, Config{Pool: raw.pool})
		sent := 0
		for ; h.link.Stats().Refused == 0 && sent < 1000; sent++ {
			h.send(t)
		}
		if s := h.link.Stats(); sent != 257 || s.Waits != 1 {
			t.Errorf("refused the datagram %d, want 257 over a ring of 256: %+v", sent, s)
		}
	})
	t.Run("no link", func(t *testing.T) {
		p, err := vhost.NewPort(vhost.PortConfig{Path: socketPath(t)})
		must(t, err)
		h := newHost(t, p, 1, Config{})
		begin := time.Now()
		if err := h.send(t); err == nil {
			t.Error("sent without a link")
		}
		if h.link.Stats().Waits != 0 {
			t.Errorf("waited %v for a link", time.Since(begin))
		}
	})
	t.Run("stopped", func(t *testing.T) {
		near, far := cable(t)
		raw := holdPort(t, far, port.Config{})
		h := newHost(t, near, 1, Config{Pool: raw.pool})
		must(t, h.link.Stop())
		if err := h.send(t); err == nil {
			t.Error("sent on a stopped port")
		}
		must(t, h.link.Start())
		must(t, h.send(t))
	})
}

// send sends a datagram to a neighbour that the stack knows.
func (h *host) send(t *testing.T) error {
	t.Helper()
	to := tcpip.AddrFrom4([4]byte{192, 0, 2, 99})
	if err := h.stack.AddStaticNeighbor(nic, header.IPv4ProtocolNumber, to, "\x02\x00\x00\x00\x00\x99"); err != nil {
		t.Fatal(err)
	}
	conn, err := gonet.DialUDP(h.stack, nil, &tcpip.FullAddress{NIC: nic, Addr: to, Port: 9}, header.IPv4ProtocolNumber)
	must(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("datagram"))
	return err
}
