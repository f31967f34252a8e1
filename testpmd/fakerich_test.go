package testpmd

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"vionet/port"
	"vionet/virtio"
)

// richPort is a fake port with everything that a port may have beside the
// methods of port.Port.
type richPort struct {
	*fakePort
	allMulticast bool
	macs         []net.HardwareAddr
	groups       []net.HardwareAddr
	vlans        map[uint16]bool
	limits       port.RSSLimits
	rss          port.RSS
	missing      error // what filters fail with
}

func newRichPort(f *fakePort) *richPort {
	f.info.RxCapa |= port.RxVLANFilt
	return &richPort{fakePort: f, vlans: map[uint16]bool{}, limits: port.RSSLimits{MaxKey: 40, MaxTable: 512, Types: virtio.HashTypesAll}}
}

// richBench is a bench of one started rich port.
func richBench(t testing.TB, change func(*Config)) (*bench, *richPort) {
	var rich *richPort
	b := startedBench(t, 1, func(c *Config) {
		rich = newRichPort(c.Ports[0].(*fakePort))
		c.Ports[0] = rich
		if change != nil {
			change(c)
		}
	})
	return b, rich
}

func (p *richPort) SetAllMulticast(on bool) error {
	p.allMulticast = on
	return nil
}

func (p *richPort) AllMulticast() bool { return p.allMulticast }

func (p *richPort) MACs() []net.HardwareAddr {
	return append([]net.HardwareAddr{p.Info().MAC}, p.macs...)
}

func (p *richPort) AddMAC(mac net.HardwareAddr) error {
	if p.missing != nil {
		return p.missing
	}
	if mac[0]&1 != 0 || slices.Equal(mac, make([]byte, 6)) {
		return fmt.Errorf("%w: no unicast address", port.ErrInvalid)
	}
	p.macs = append(p.macs, slices.Clone(mac))
	return nil
}

func (p *richPort) RemoveMAC(mac net.HardwareAddr) error {
	p.macs = slices.DeleteFunc(p.macs, func(m net.HardwareAddr) bool { return slices.Equal(m, mac) })
	return nil
}

func (p *richPort) SetMAC(mac net.HardwareAddr) error {
	if mac[0]&1 != 0 {
		return fmt.Errorf("%w: no unicast address", port.ErrInvalid)
	}
	p.mac = slices.Clone(mac)
	return nil
}

func (p *richPort) Multicast() []net.HardwareAddr { return slices.Clone(p.groups) }

func (p *richPort) SetMulticast(groups []net.HardwareAddr) error {
	if p.missing != nil {
		return p.missing
	}
	p.groups = slices.Clone(groups)
	return nil
}

func (p *richPort) SetVLANFilter(id uint16, on bool) error {
	if on {
		p.vlans[id] = true
	} else {
		delete(p.vlans, id)
	}
	return nil
}

// SetRxOffloads does as virtio does: nothing new while packets move.
func (p *richPort) SetRxOffloads(active port.RxOffloads) error {
	if active&^p.conf.RxOffloads != 0 {
		return port.ErrState
	}
	p.called(fmt.Sprintf("active %v", active))
	return nil
}

func (p *richPort) Features() (offered, asked, negotiated []string) {
	return []string{"CSUM", "MRG_RXBUF", "VERSION_1"}, []string{"MRG_RXBUF", "VERSION_1", "RING_PACKED"}, []string{"MRG_RXBUF", "VERSION_1"}
}

func (p *richPort) Restart() error {
	p.called("restart")
	return p.startErr
}

// Configure keeps what RSS it is asked for, with the settings from before.
func (p *richPort) Configure(c port.Config) error {
	if c.RSS != nil {
		if c.RSS.Types != 0 {
			p.rss.Types = c.RSS.Types
		}
		if p.rss.Key == nil {
			p.rss.Key = slices.Repeat([]byte{0xab}, p.limits.MaxKey)
		}
		if p.rss.Table == nil {
			for i := range 128 {
				p.rss.Table = append(p.rss.Table, uint16(i%c.RxQueues))
			}
		}
	}
	return p.fakePort.Configure(c)
}

func (p *richPort) RSSLimits() (port.RSSLimits, error) { return p.limits, p.missing }

func (p *richPort) RSS() (port.RSS, error) {
	if p.conf.RSS == nil {
		return port.RSS{}, port.ErrState
	}
	r := p.rss
	r.Key, r.Table = slices.Clone(r.Key), slices.Clone(r.Table)
	return r, nil
}

// adjust changes the settings where there are any.
func (p *richPort) adjust(change func(*port.RSS)) error {
	if p.conf.RSS == nil {
		return port.ErrState
	}
	change(&p.rss)
	return nil
}

func (p *richPort) SetRSSKey(key []byte) error {
	return p.adjust(func(r *port.RSS) { r.Key = slices.Clone(key) })
}

func (p *richPort) SetRSSTypes(types virtio.HashTypes) error {
	return p.adjust(func(r *port.RSS) { r.Types = types })
}

func (p *richPort) SetRSSTable(table []uint16) error {
	for i, q := range table {
		if int(q) >= p.conf.RxQueues {
			return fmt.Errorf("entry %d names queue %d: %w", i, q, port.ErrInvalid)
		}
	}
	return p.adjust(func(r *port.RSS) { r.Table = slices.Clone(table) })
}
