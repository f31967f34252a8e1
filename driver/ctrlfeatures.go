package driver

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"vionet/port"
	"vionet/virtio"
)

// maxQueuePairs is the largest number of queue pairs that the driver uses.
const maxQueuePairs = 128

// Features of the control queue that offloads need.
const (
	rxHashFeatures = virtio.NetHashReport | virtio.NetCtrlVQ
	rxVLANFeatures = virtio.NetCtrlVLAN | virtio.NetCtrlVQ
	rssFeatures    = virtio.NetRSS | virtio.NetCtrlVQ
)

// guestOffloadFeatures are those that CTRL_GUEST_OFFLOADS switches (virtio 1.2,
// section 5.1.6.5.6).
const guestOffloadFeatures = virtio.NetGuestCSUM | virtio.NetGuestTSO4 | virtio.NetGuestTSO6 |
	virtio.NetGuestECN | virtio.NetGuestUFO | virtio.NetGuestUSO4 | virtio.NetGuestUSO6

// controlFeatures are the features of the control queue that are taken where
// the device has them; need holds those that the configuration cannot do
// without. Filters and interrupt coalescing change nothing until a command
// comes, and may be asked for at any time. CTRL_VLAN is not among them, since a
// device that has it negotiated drops tagged frames.
func controlFeatures(offered, need virtio.Features, cfg port.Config) virtio.Features {
	if !offered.Has(virtio.NetCtrlVQ) {
		return 0
	}
	want := virtio.NetCtrlRx | virtio.NetNotfCoal
	if offered.Has(virtio.NetCtrlRx) {
		want |= virtio.NetCtrlRxExtra | virtio.NetCtrlMACAddr
	}
	if offered.Has(virtio.NetStatus) {
		want |= virtio.NetGuestAnnounce
	}
	if max(cfg.RxQueues, cfg.TxQueues) > 1 {
		want |= virtio.NetMQ
	}
	if need&guestOffloadFeatures != 0 {
		want |= virtio.NetCtrlGuestOffloads
	}
	taken := offered & want
	if taken != 0 {
		taken |= virtio.NetCtrlVQ
	}
	return taken
}

// probeControl reads what the control queue can do, and gives the offered
// features without those whose limits make no sense.
func (d *Device) probeControl(offered virtio.Features) (virtio.Features, error) {
	d.maxPairs = max(d.transport.MaxPairs(), 1)
	d.control.maxVirtqueuePairs = 1
	if !offered.Has(virtio.NetCtrlVQ) {
		return offered, nil
	}
	if offered&(virtio.NetMQ|virtio.NetRSS) != 0 {
		pairs, err := readConfig16(d.transport, virtio.ConfigMaxPairs)
		if err != nil {
			return 0, err
		}
		if pairs < virtio.MinQueuePairs || pairs > virtio.MaxQueuePairs {
			d.log.Warn(fmt.Sprintf("virtio: port %d: the device claims %d queue pairs, which is not %d to %d: one is used",
				d.opts.ID, pairs, virtio.MinQueuePairs, virtio.MaxQueuePairs))
			offered &^= virtio.NetMQ | virtio.NetRSS
		} else {
			d.control.maxVirtqueuePairs = int(pairs)
			d.maxPairs = min(int(pairs), maxQueuePairs)
		}
	}
	return d.probeHash(offered)
}

// probeHash reads the limits of RSS and HASH_REPORT (section 5.1.4).
func (d *Device) probeHash(offered virtio.Features) (virtio.Features, error) {
	if offered&(virtio.NetRSS|virtio.NetHashReport) == 0 {
		return offered, nil
	}
	var b [7]byte // rss_max_key_size, rss_max_indirection_table_length, supported_hash_types
	if err := d.transport.ReadConfig(virtio.ConfigRSSKeyMax, b[:]); err != nil {
		return 0, fmt.Errorf("read the limits of RSS: %w", err)
	}
	limits := port.RSSLimits{
		MaxKey: int(b[0]),
		Types:  virtio.HashTypes(binary.LittleEndian.Uint32(b[3:])) & virtio.HashTypesAll,
	}
	if table := binary.LittleEndian.Uint16(b[1:]); table > 0 && offered.Has(virtio.NetRSS) {
		limits.MaxTable = 1 << (bits.Len16(table) - 1)
	}
	if offered.Has(virtio.NetRSS) && limits.MaxTable == 0 || limits.MaxKey == 0 || limits.Types == 0 {
		d.log.Warn(fmt.Sprintf("virtio: port %d: RSS with a key of %d bytes, a table of %d and types [%v] is left alone",
			d.opts.ID, limits.MaxKey, limits.MaxTable, limits.Types))
		return offered &^ (virtio.NetRSS | virtio.NetHashReport), nil
	}
	d.control.limits = limits
	return offered, nil
}

// controlMemory is the device memory in bytes that the control queue takes.
func (d *Device) controlMemory() (int, error) {
	if !d.offered.Has(virtio.NetCtrlVQ) {
		return 0, nil
	}
	size := 64
	for _, index := range []int{2, 2 * d.control.maxVirtqueuePairs} {
		n, err := d.transport.QueueSize(index)
		if err != nil {
			return 0, fmt.Errorf("%s: read the size of virtqueue %d: %w", d.Name(), index, err)
		}
		size = max(size, n)
	}
	n, err := ringMemory(size, d.offered.Has(virtio.RingPacked))
	if err != nil {
		return 0, fmt.Errorf("%s: control queue: %w", d.Name(), err)
	}
	return n + controlSlots*d.control.slotSize() + 64, nil
}
