package driver

import (
	"encoding/binary"
	"fmt"

	"vionet/port"
	"vionet/virtio"
)

var (
	_ port.AllMulticaster = (*Device)(nil)
	_ port.RxModeSetter   = (*Device)(nil)
	_ port.VLANFilter     = (*Device)(nil)
)

// SetPromiscuous switches the reception of frames for other stations. A device
// without CTRL_RX receives what it likes.
func (d *Device) SetPromiscuous(on bool) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	return d.adjust("promiscuous mode", virtio.NetCtrlRx, command{virtio.CtrlRxPromisc, flag(on)},
		func(s *settings) { s.promiscuous = on })
}

// SetAllMulticast switches the reception of all multicast frames.
func (d *Device) SetAllMulticast(on bool) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	return d.adjust("all-multicast mode", virtio.NetCtrlRx, command{virtio.CtrlRxAllMulti, flag(on)},
		func(s *settings) { s.allMulticast = on })
}

// AllMulticast reports whether all-multicast mode is on.
func (d *Device) AllMulticast() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.control.settings.allMulticast
}

var rxModeCommands = [...]virtio.ControlCommand{
	port.RxAllUnicast:  virtio.CtrlRxAllUni,
	port.RxNoMulticast: virtio.CtrlRxNoMulti,
	port.RxNoUnicast:   virtio.CtrlRxNoUni,
	port.RxNoBroadcast: virtio.CtrlRxNoBcast,
}

// SetRxMode switches an extra receive mode.
func (d *Device) SetRxMode(mode port.RxMode, on bool) error {
	if mode < 0 || int(mode) >= len(rxModeCommands) {
		return fmt.Errorf("%s: receive mode %d: %w", d.Name(), mode, port.ErrInvalid)
	}
	d.control.change.Lock()
	defer d.control.change.Unlock()
	cmd := command{rxModeCommands[mode], flag(on)}
	return d.adjust(fmt.Sprintf("receive mode %v", cmd.code), virtio.NetCtrlRx|virtio.NetCtrlRxExtra, cmd,
		func(s *settings) { s.modes[mode] = on })
}

// SetVLANFilter lets the frames of a VLAN in or not; the offload RxVLANFilt must
// be configured.
func (d *Device) SetVLANFilter(id uint16, on bool) error {
	const ids = 4096
	if id >= ids {
		return fmt.Errorf("%s: VLAN %d: %w: must be below %d", d.Name(), id, port.ErrInvalid, ids)
	}
	d.control.change.Lock()
	defer d.control.change.Unlock()
	code := virtio.CtrlVLANDel
	if on {
		code = virtio.CtrlVLANAdd
	}
	return d.adjust("VLAN filter", virtio.NetCtrlVLAN, command{code, le16(id)}, func(s *settings) {
		if s.vlans == nil {
			s.vlans = map[uint16]bool{}
		}
		if on {
			s.vlans[id] = true
		} else {
			delete(s.vlans, id)
		}
	})
}

func le16(v uint16) []byte { return binary.LittleEndian.AppendUint16(nil, v) }
