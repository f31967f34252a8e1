package driver_test

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/port"
	"vionet/virtio"
)

// station is a unicast address that ends in n, group a multicast one.
func station(n byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, n} }
func group(n byte) net.HardwareAddr   { return net.HardwareAddr{1, 0, 0x5e, 0, 0, n} }

// tables is the data of a MAC_TABLE_SET.
func tables(unicast, multicast []net.HardwareAddr) []byte {
	b := []byte{byte(len(unicast)), 0, 0, 0}
	b = append(b, bytes.Join(hw(unicast), nil)...)
	b = append(b, byte(len(multicast)), 0, 0, 0)
	return append(b, bytes.Join(hw(multicast), nil)...)
}

func hw(list []net.HardwareAddr) (out [][]byte) {
	for _, m := range list {
		out = append(out, m)
	}
	return out
}

func TestFilterCommands(t *testing.T) {
	groups := []net.HardwareAddr{group(1), group(2)}
	with7 := []net.HardwareAddr{station(7)}
	tests := []struct {
		name string
		do   func(d *driver.Device) error
		want fakedev.Command
	}{
		{"promiscuous", func(d *driver.Device) error { return d.SetPromiscuous(true) }, told(virtio.CtrlRxPromisc, 1)},
		{"all-multicast", func(d *driver.Device) error { return d.SetAllMulticast(true) }, told(virtio.CtrlRxAllMulti, 1)},
		{"no broadcast", func(d *driver.Device) error { return d.SetRxMode(port.RxNoBroadcast, true) }, told(virtio.CtrlRxNoBcast, 1)},
		{"unicast again", func(d *driver.Device) error { return d.SetRxMode(port.RxNoUnicast, false) }, told(virtio.CtrlRxNoUni, 0)},
		{"an address", func(d *driver.Device) error { return d.AddMAC(station(7)) }, told(virtio.CtrlMACTableSet, tables(with7, nil)...)},
		{"groups", func(d *driver.Device) error { return d.SetMulticast(groups) }, told(virtio.CtrlMACTableSet, tables(with7, groups)...)},
		{"remove", func(d *driver.Device) error { return d.RemoveMAC(station(7)) }, told(virtio.CtrlMACTableSet, tables(nil, groups)...)},
		{"primary address", func(d *driver.Device) error { return d.SetMAC(station(8)) }, told(virtio.CtrlMACAddrSet, station(8)...)},
		{"vlan", func(d *driver.Device) error { return d.SetVLANFilter(0x234, true) }, told(virtio.CtrlVLANAdd, 0x34, 2)},
		{"no vlan", func(d *driver.Device) error { return d.SetVLANFilter(0x234, false) }, told(virtio.CtrlVLANDel, 0x34, 2)},
		{"coalescing", func(d *driver.Device) error {
			return d.SetRxCoalescing(port.Coalescing{MaxPackets: 3, MaxUsecs: 0x104})
		},
			told(virtio.CtrlNotfCoalRxSet, 3, 0, 0, 0, 4, 1, 0, 0)},
	}
	r := ctrlRig(t, rigConfig{port: port.Config{RxOffloads: port.RxVLANFilt}})
	for _, tt := range tests {
		if err := tt.do(r.port); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		r.wantCommands(tt.want)
	}
}

// TestSettingsAreRestored sets everything before the first start, and wants to
// see it at the device after each start.
func TestSettingsAreRestored(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Offered: ctrlFeatures}, port: port.Config{RxOffloads: port.RxVLANFilt}})
	p := r.port
	err := errors.Join(
		p.SetPromiscuous(true), p.SetRxMode(port.RxNoMulticast, true), p.SetMAC(station(1)), p.AddMAC(station(2)),
		p.AddMAC(station(3)), p.AddMAC(station(2)), p.SetMulticast([]net.HardwareAddr{group(9)}),
		p.SetVLANFilter(7, true), p.SetVLANFilter(5, true), p.SetVLANFilter(6, true), p.SetVLANFilter(6, false),
		p.SetTxCoalescing(port.Coalescing{MaxPackets: 1, MaxUsecs: 2}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]net.HardwareAddr{station(1), station(2), station(3)}, p.MACs()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	r.wantCommands()
	for range 3 {
		r.dev.WriteConfig(virtio.ConfigMAC, net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}) // as a reset does
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		r.wantCommands(
			told(virtio.CtrlRxPromisc, 1), told(virtio.CtrlRxAllMulti, 0),
			told(virtio.CtrlMACAddrSet, station(1)...),
			told(virtio.CtrlMACTableSet, tables([]net.HardwareAddr{station(2), station(3)}, []net.HardwareAddr{group(9)})...),
			told(virtio.CtrlRxNoMulti, 1),
			told(virtio.CtrlVLANAdd, 5, 0), told(virtio.CtrlVLANAdd, 7, 0),
			told(virtio.CtrlNotfCoalTxSet, 1, 0, 0, 0, 2, 0, 0, 0))
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPrimaryAddressInTheTable drives a device that has no other way to learn
// its address.
func TestPrimaryAddressInTheTable(t *testing.T) {
	offered := virtio.Version1 | virtio.NetCtrlVQ | virtio.NetCtrlRx
	r := newRig(t, rigConfig{dev: fakedev.Config{Offered: offered}, opts: driver.Options{MAC: station(1)}})
	if err := errors.Join(r.port.Start(), r.port.SetMAC(station(2)), r.port.AddMAC(station(3))); err != nil {
		t.Fatal(err)
	}
	off := []fakedev.Command{told(virtio.CtrlRxPromisc, 0), told(virtio.CtrlRxAllMulti, 0)}
	r.wantCommands(append(off,
		told(virtio.CtrlMACTableSet, tables([]net.HardwareAddr{station(1)}, nil)...),
		told(virtio.CtrlMACTableSet, tables([]net.HardwareAddr{station(2)}, nil)...),
		told(virtio.CtrlMACTableSet, tables([]net.HardwareAddr{station(2), station(3)}, nil)...))...)
}

// TestRefusedFilters tells a refusal that matters from one that does not.
func TestRefusedFilters(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Offered: ctrlFeatures}})
	r.dev.OnControl(func(c fakedev.Command) fakedev.Answer { return fakedev.Answer{Status: virtio.CtrlErr} })
	if err := r.port.Start(); err != nil {
		t.Fatalf("a device that stays promiscuous is not started: %v", err)
	}
	if err := r.port.AddMAC(station(1)); !errors.Is(err, driver.ErrCommandRefused) {
		t.Errorf("AddMAC: %v", err)
	}
	if got := r.port.MACs(); len(got) != 1 {
		t.Errorf("a refused address is listed: %v", got)
	}
	r.port.Stop()
	if err := r.port.SetPromiscuous(true); err != nil {
		t.Fatal(err)
	}
	if err := r.port.Start(); !errors.Is(err, driver.ErrCommandRefused) {
		t.Errorf("Start on a device that cannot be made promiscuous: %v", err)
	}
}

func TestBadAddressesAndVLANs(t *testing.T) {
	r := ctrlRig(t, rigConfig{})
	primary := r.port.MACs()[0]
	many := make([]net.HardwareAddr, 257)
	for i := range many {
		many[i] = group(byte(i))
	}
	for name, err := range map[string]error{
		"multicast address":  r.port.AddMAC(group(1)),
		"zero address":       r.port.AddMAC(make(net.HardwareAddr, 6)),
		"short address":      r.port.SetMAC(net.HardwareAddr{2}),
		"unicast group":      r.port.SetMulticast([]net.HardwareAddr{station(1)}),
		"257 groups":         r.port.SetMulticast(many),
		"remove the primary": r.port.RemoveMAC(primary),
		"vlan 4096":          r.port.SetVLANFilter(4096, true),
		"no such mode":       r.port.SetRxMode(4, true),
	} {
		if !errors.Is(err, port.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if err := r.port.SetVLANFilter(1, true); !errors.Is(err, port.ErrState) {
		t.Errorf("VLAN filter without the offload: %v, want ErrState", err)
	}
	if err := errors.Join(r.port.AddMAC(primary), r.port.RemoveMAC(station(99))); err != nil {
		t.Error(err)
	}
	r.wantCommands()
	for n := range byte(63) {
		if err := r.port.AddMAC(station(100 + n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.port.AddMAC(station(1)); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("65th address: %v", err)
	}
	if err := r.port.SetMulticast(many[:256]); err != nil {
		t.Error(err)
	}
	if got := r.port.Multicast(); !slices.EqualFunc(got, many[:256], func(a, b net.HardwareAddr) bool { return slices.Equal(a, b) }) {
		t.Errorf("%d groups read back", len(got))
	}
}

func TestRxOffloadsOfARunningPort(t *testing.T) {
	const lro = port.RxTCPLRO | port.RxTCPCksum
	r := ctrlRig(t, rigConfig{port: port.Config{RxOffloads: lro | port.RxVLANStrip}})
	// GUEST_CSUM is bit 1, GUEST_TSO4 and 6 are 7 and 8.
	for _, tt := range []struct {
		active port.RxOffloads
		want   []byte
	}{
		{port.RxVLANStrip | port.RxTCPCksum, []byte{2, 0, 0, 0, 0, 0, 0, 0}},
		{port.RxVLANStrip, make([]byte, 8)},
		{port.RxVLANStrip | lro, []byte{0x82, 1, 0, 0, 0, 0, 0, 0}},
	} {
		if err := r.port.SetRxOffloads(tt.active); err != nil {
			t.Error(err)
		}
		r.wantCommands(told(virtio.CtrlGuestOffloadsSet, tt.want...))
		if got := r.port.Info().RxActive; got != tt.active {
			t.Errorf("active are %v, want %v", got, tt.active)
		}
	}
	for _, wrong := range []port.RxOffloads{lro, lro | port.RxVLANStrip | port.RxUDPCksum, lro | port.RxVLANStrip | port.RxRSSHash} {
		if err := r.port.SetRxOffloads(wrong); !errors.Is(err, port.ErrState) {
			t.Errorf("%v: %v, want ErrState", wrong, err)
		}
	}
	r.wantCommands()
	r.port.Stop()
	if err := r.port.SetRxOffloads(lro); !errors.Is(err, port.ErrState) {
		t.Errorf("on a stopped port: %v", err)
	}
}
