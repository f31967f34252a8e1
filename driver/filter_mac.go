package driver

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"vionet/port"
	"vionet/virtio"
)

// Addresses that a port receives for at most.
const (
	maxMACs      = 64 // the primary one among them
	maxMulticast = 256
)

var (
	_ port.MACFilter       = (*Device)(nil)
	_ port.MulticastFilter = (*Device)(nil)
)

// MACs lists the port's unicast addresses, the primary one first.
func (d *Device) MACs() []net.HardwareAddr {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]net.HardwareAddr{d.mac}, d.control.settings.macs...)
}

// AddMAC makes the port receive for another address.
func (d *Device) AddMAC(mac net.HardwareAddr) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	s := &d.control.settings
	switch {
	case !isStation(mac):
		return fmt.Errorf("%s: add address %v: %w: it is no unicast address", d.Name(), mac, port.ErrInvalid)
	case slices.Equal(mac, d.mac) || indexMAC(s.macs, mac) >= 0:
		return nil
	case len(s.macs)+1 == maxMACs:
		return fmt.Errorf("%s: add address %v: %w: there are %d already", d.Name(), mac, port.ErrInvalid, maxMACs)
	}
	return d.setTable(append(slices.Clone(s.macs), slices.Clone(mac)), s.multicast)
}

// RemoveMAC makes the port receive no more for an address that AddMAC added.
func (d *Device) RemoveMAC(mac net.HardwareAddr) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	s := &d.control.settings
	if slices.Equal(mac, d.mac) {
		return fmt.Errorf("%s: remove address %v: %w: it is the primary one, which can only be changed", d.Name(), mac, port.ErrInvalid)
	}
	i := indexMAC(s.macs, mac)
	if i < 0 {
		return nil
	}
	return d.setTable(slices.Delete(slices.Clone(s.macs), i, i+1), s.multicast)
}

// Multicast lists the multicast groups that the port receives for.
func (d *Device) Multicast() []net.HardwareAddr {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.control.settings.multicast)
}

// SetMulticast replaces the multicast groups that the port receives for.
func (d *Device) SetMulticast(groups []net.HardwareAddr) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	if len(groups) > maxMulticast {
		return fmt.Errorf("%s: %d multicast groups: %w: at most %d", d.Name(), len(groups), port.ErrInvalid, maxMulticast)
	}
	kept := make([]net.HardwareAddr, len(groups))
	for i, g := range groups {
		if len(g) != 6 || g[0]&1 == 0 {
			return fmt.Errorf("%s: multicast group %v: %w: it is no multicast address", d.Name(), g, port.ErrInvalid)
		}
		kept[i] = slices.Clone(g)
	}
	return d.setTable(d.control.settings.macs, kept)
}

// setTable gives the device both address tables.
func (d *Device) setTable(macs, multicast []net.HardwareAddr) error {
	return d.adjust("MAC address filter", virtio.NetCtrlRx, d.macTable(d.mac, macs, multicast), func(s *settings) {
		s.macs, s.multicast = macs, multicast
	})
}

// SetMAC changes the primary address. A device that cannot change its own has
// the new one in its table.
func (d *Device) SetMAC(mac net.HardwareAddr) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	if !isStation(mac) {
		return fmt.Errorf("%s: set address %v: %w: it is no unicast address", d.Name(), mac, port.ErrInvalid)
	}
	mac = slices.Clone(mac)
	s := &d.control.settings
	macs := slices.Clone(s.macs)
	if i := indexMAC(macs, mac); i >= 0 {
		macs = slices.Delete(macs, i, i+1)
	}
	need, cmd := virtio.NetCtrlRx|virtio.NetCtrlMACAddr, command{virtio.CtrlMACAddrSet, mac}
	if !d.offered.Has(virtio.NetCtrlMACAddr) {
		need, cmd = virtio.NetCtrlRx, d.macTable(mac, macs, s.multicast)
	}
	return d.adjust("set the MAC address", need, cmd, func(s *settings) { d.mac, s.macs = mac, macs })
}

// macTable is the command that sets both address tables. The primary address is
// in the table when the device has no other way to learn it.
func (d *Device) macTable(primary net.HardwareAddr, macs, multicast []net.HardwareAddr) command {
	if !d.offered.Has(virtio.NetCtrlMACAddr) {
		macs = append([]net.HardwareAddr{primary}, macs...)
	}
	var data []byte
	for _, table := range [][]net.HardwareAddr{macs, multicast} {
		data = binary.LittleEndian.AppendUint32(data, uint32(len(table)))
		for _, mac := range table {
			data = append(data, mac...)
		}
	}
	return command{virtio.CtrlMACTableSet, data}
}

// isStation reports whether mac is an address of one station.
func isStation(mac net.HardwareAddr) bool {
	return len(mac) == 6 && mac[0]&1 == 0 && !slices.Equal(mac, make(net.HardwareAddr, 6))
}

func indexMAC(list []net.HardwareAddr, mac net.HardwareAddr) int {
	return slices.IndexFunc(list, func(m net.HardwareAddr) bool { return slices.Equal(m, mac) })
}
