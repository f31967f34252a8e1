package driver

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"vionet/port"
	"vionet/virtio"
)

// enablePairs tells the device how many queue pairs are in use, by the way that
// was negotiated. It is told also when that is one.
func (d *Device) enablePairs() error {
	pairs := max(d.cfg.RxQueues, d.cfg.TxQueues)
	var err error
	switch queue := d.control.queue.Load(); {
	case d.accepted.Has(rssFeatures):
		err = queue.do(d.rssCommand(d.control.settings.rss))
	case d.accepted.Has(virtio.NetMQ | virtio.NetCtrlVQ):
		err = queue.do(command{virtio.CtrlMQPairsSet, le16(uint16(pairs))})
	default:
		err = d.transport.EnablePairs(pairs)
		if pairs == 1 && errors.Is(err, port.ErrNotSupported) {
			err = nil // it is the only one
		}
	}
	if err != nil {
		return fmt.Errorf("enable %d queue pairs: %w", pairs, err)
	}
	return nil
}

// restoreSettings gives the device what a reset made it forget.
func (d *Device) restoreSettings() error {
	queue := d.control.queue.Load()
	if queue == nil {
		return nil
	}
	commands, err := d.settingCommands()
	if err != nil {
		return err
	}
	for _, cmd := range commands {
		err := queue.do(cmd)
		switch {
		case err == nil:
		case errors.Is(err, ErrCommandRefused) && switchesOff(cmd):
			// The device receives more than was asked for, no less.
			d.log.Warn(fmt.Sprintf("virtio: port %d: %v", d.opts.ID, err))
		default:
			return err
		}
	}
	return nil
}

// settingCommands are the commands that bring a device after its reset to the
// settings.
func (d *Device) settingCommands() (commands []command, err error) {
	s := &d.control.settings
	if d.accepted.Has(rxHashFeatures) && !d.accepted.Has(virtio.NetRSS) {
		commands = append(commands, d.rssCommand(s.rss))
	}
	if d.accepted.Has(virtio.NetCtrlRx) {
		commands = append(commands,
			command{virtio.CtrlRxPromisc, flag(s.promiscuous)},
			command{virtio.CtrlRxAllMulti, flag(s.allMulticast)})
		stations, err := d.stationCommands()
		if err != nil {
			return nil, err
		}
		commands = append(commands, stations...)
	}
	if d.accepted.Has(virtio.NetCtrlRxExtra) {
		for mode, on := range s.modes {
			if on {
				commands = append(commands, command{rxModeCommands[mode], flag(true)})
			}
		}
	}
	if d.accepted.Has(virtio.NetCtrlVLAN) {
		for _, id := range slices.Sorted(maps.Keys(s.vlans)) {
			commands = append(commands, command{virtio.CtrlVLANAdd, le16(id)})
		}
	}
	if d.accepted.Has(virtio.NetNotfCoal) {
		for _, code := range slices.Sorted(maps.Keys(s.coalesce)) {
			commands = append(commands, coalesceCommand(code, s.coalesce[code]))
		}
	}
	return commands, nil
}

// stationCommands make the device receive for the port's addresses. It knows
// one by itself, where it has one.
func (d *Device) stationCommands() (commands []command, err error) {
	own := make(net.HardwareAddr, 6)
	if d.accepted.Has(virtio.NetMAC) {
		if err := d.transport.ReadConfig(virtio.ConfigMAC, own); err != nil {
			return nil, fmt.Errorf("read the MAC address: %w", err)
		}
	}
	s := &d.control.settings
	foreign := !slices.Equal(own, d.mac)
	if foreign && d.accepted.Has(virtio.NetCtrlMACAddr) {
		commands = append(commands, command{virtio.CtrlMACAddrSet, d.mac})
		foreign = false
	}
	if foreign || len(s.macs)+len(s.multicast) > 0 {
		commands = append(commands, d.macTable(d.mac, s.macs, s.multicast))
	}
	return commands, nil
}

// switchesOff reports whether a command switches a receive mode off.
func switchesOff(cmd command) bool {
	return cmd.code.Class() == virtio.CtrlRxPromisc.Class() && cmd.data[0] == 0
}
