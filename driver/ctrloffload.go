package driver

import (
	"encoding/binary"
	"fmt"

	"vionet/port"
	"vionet/virtio"
)

var (
	_ port.Coalescer       = (*Device)(nil)
	_ port.RxOffloadSetter = (*Device)(nil)
)

// SetRxCoalescing says how long the interrupts of receive queues may be put off.
func (d *Device) SetRxCoalescing(c port.Coalescing) error {
	return d.coalesce(virtio.CtrlNotfCoalRxSet, c)
}

// SetTxCoalescing says how long the interrupts of transmit queues may be put
// off.
func (d *Device) SetTxCoalescing(c port.Coalescing) error {
	return d.coalesce(virtio.CtrlNotfCoalTxSet, c)
}

func (d *Device) coalesce(code virtio.ControlCommand, c port.Coalescing) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	return d.adjust("interrupt coalescing", virtio.NetNotfCoal, coalesceCommand(code, c), func(s *settings) {
		if s.coalesce == nil {
			s.coalesce = map[virtio.ControlCommand]port.Coalescing{}
		}
		s.coalesce[code] = c
	})
}

func coalesceCommand(code virtio.ControlCommand, c port.Coalescing) command {
	data := binary.LittleEndian.AppendUint32(nil, c.MaxPackets)
	return command{code, binary.LittleEndian.AppendUint32(data, c.MaxUsecs)}
}

// SetRxOffloads switches, on the started port, which of the checksum and LRO
// offloads the device does, among those that are configured. The receive path
// stays the one that Start chose.
func (d *Device) SetRxOffloads(active port.RxOffloads) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	d.mu.Lock()
	err := d.mustBe(started, "change Rx offloads")
	configured := d.cfg.RxOffloads
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if wrong := (active ^ configured) &^ rxChecksums; wrong != 0 {
		return fmt.Errorf("%s: change Rx offloads [%v]: %w: only [%v] can be switched while the port runs", d.Name(), wrong, port.ErrState, rxChecksums)
	}
	if extra := active &^ configured; extra != 0 {
		return fmt.Errorf("%s: Rx offloads [%v]: %w: they are not configured: stop the port, configure and start it", d.Name(), extra, port.ErrState)
	}
	cfg := port.Config{RxOffloads: active}
	features := (offloadFeatures(cfg) | helpfulFeatures(cfg)) & guestOffloadFeatures & d.accepted
	cmd := command{virtio.CtrlGuestOffloadsSet, binary.LittleEndian.AppendUint64(nil, uint64(features))}
	return d.adjust("change Rx offloads", virtio.NetCtrlGuestOffloads, cmd, func(*settings) { d.active.RxOffloads = active })
}
