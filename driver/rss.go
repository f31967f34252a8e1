package driver

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"vionet/port"
	"vionet/virtio"
)

var _ port.RSSSetter = (*Device)(nil)

// defaultRSSKey is the key that most drivers start with.
var defaultRSSKey = []byte{
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
	0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
	0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
}

// defaultRSSTable is the length of the table where the device allows it.
const defaultRSSTable = 128

// resolveRSS gives the settings of RSS under a configuration: those that it
// names, beside them those of before, and the usual ones at first.
func (d *Device) resolveRSS(cfg port.Config) (port.RSS, error) {
	r, limits := d.control.settings.rss, d.control.limits
	if cfg.RxQueues != d.cfg.RxQueues {
		r.Table = nil
	}
	if !usesHash(cfg) {
		return r, nil
	}
	if r.Key == nil {
		r.Key = defaultRSSKey[:min(len(defaultRSSKey), limits.MaxKey)]
		r.Types = limits.Types
	}
	if cfg.RSS == nil {
		return r, nil
	}
	if missing := rssFeatures &^ d.offered; missing != 0 {
		return r, &FeatureError{Asked: "RSS", Missing: missing}
	}
	if cfg.RSS.Key != nil {
		r.Key = slices.Clone(cfg.RSS.Key)
	}
	if cfg.RSS.Table != nil {
		r.Table = slices.Clone(cfg.RSS.Table)
	} else if r.Table == nil {
		r.Table = roundTable(min(defaultRSSTable, limits.MaxTable), cfg.RxQueues)
	}
	if err := checkRSSKey(r.Key, limits); err != nil {
		return r, err
	}
	if err := checkRSSTable(r.Table, cfg.RxQueues, limits); err != nil {
		return r, err
	}
	if cfg.RSS.Types == 0 {
		return r, nil
	}
	var err error
	r.Types, err = knownHashTypes(cfg.RSS.Types, limits)
	return r, err
}

// usesHash reports whether the device is to compute hashes.
func usesHash(cfg port.Config) bool {
	return cfg.RSS != nil || cfg.RxOffloads&port.RxRSSHash != 0
}

// roundTable spreads packets evenly over the receive queues.
func roundTable(entries, queues int) []uint16 {
	table := make([]uint16, entries)
	for i := range table {
		table[i] = uint16(i % queues)
	}
	return table
}

func checkRSSKey(key []byte, limits port.RSSLimits) error {
	if len(key) == 0 || len(key) > limits.MaxKey {
		return fmt.Errorf("RSS key of %d bytes: %w: the device takes 1 to %d", len(key), port.ErrInvalid, limits.MaxKey)
	}
	return nil
}

func checkRSSTable(table []uint16, queues int, limits port.RSSLimits) error {
	if n := len(table); bits.OnesCount(uint(n)) != 1 || n > limits.MaxTable {
		return fmt.Errorf("RSS table of %d entries: %w: the device takes powers of two up to %d", n, port.ErrInvalid, limits.MaxTable)
	}
	for i, q := range table {
		if int(q) >= queues {
			return fmt.Errorf("RSS table entry %d names receive queue %d: %w: there are %d queues", i, q, port.ErrInvalid, queues)
		}
	}
	return nil
}

// knownHashTypes are those of the types that the device knows; it must know one
// when any are asked for.
func knownHashTypes(types virtio.HashTypes, limits port.RSSLimits) (virtio.HashTypes, error) {
	known := types & limits.Types
	if known == 0 && types != 0 {
		return 0, fmt.Errorf("RSS types [%v]: %w: the device has [%v]", types, port.ErrNotSupported, limits.Types)
	}
	return known, nil
}

// RSSLimits says what the device can do of RSS.
func (d *Device) RSSLimits() (port.RSSLimits, error) {
	if missing := rssFeatures &^ d.offered; missing != 0 {
		return port.RSSLimits{}, fmt.Errorf("%s: %w", d.Name(), &FeatureError{Asked: "RSS", Missing: missing})
	}
	return d.control.limits, nil
}

// RSS gives a copy of the settings.
func (d *Device) RSS() (port.RSS, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !usesHash(d.cfg) {
		return port.RSS{}, d.noRSS()
	}
	r := d.control.settings.rss
	r.Key, r.Table = slices.Clone(r.Key), slices.Clone(r.Table)
	return r, nil
}

func (d *Device) noRSS() error {
	return fmt.Errorf("%s: RSS: %w: it is not configured", d.Name(), port.ErrState)
}

// SetRSSKey changes the key.
func (d *Device) SetRSSKey(key []byte) error {
	return d.adjustRSS("RSS key", func(r *port.RSS) error {
		r.Key = slices.Clone(key)
		return checkRSSKey(key, d.control.limits)
	})
}

// SetRSSTable changes the table; RSS itself must be configured, not the
// reported hash alone.
func (d *Device) SetRSSTable(table []uint16) error {
	return d.adjustRSS("RSS table", func(r *port.RSS) error {
		if d.cfg.RSS == nil {
			return d.noRSS()
		}
		r.Table = slices.Clone(table)
		return checkRSSTable(table, d.cfg.RxQueues, d.control.limits)
	})
}

// SetRSSTypes changes the types of packets that are hashed.
func (d *Device) SetRSSTypes(types virtio.HashTypes) error {
	return d.adjustRSS("RSS types", func(r *port.RSS) (err error) {
		r.Types, err = knownHashTypes(types, d.control.limits)
		return err
	})
}

// adjustRSS changes a copy of the settings, and makes them those of the device
// when the change is one that it takes.
func (d *Device) adjustRSS(what string, change func(*port.RSS) error) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	if !usesHash(d.cfg) {
		return d.noRSS()
	}
	r := d.control.settings.rss
	if err := change(&r); err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	need := virtio.NetHashReport
	if d.cfg.RSS != nil {
		need = virtio.NetRSS
	}
	return d.adjust(what, need, d.rssCommand(r), func(s *settings) { s.rss = r })
}

// rssCommand is the command that carries the settings: one for RSS, another
// for a hash that is only reported.
func (d *Device) rssCommand(r port.RSS) command {
	le := binary.LittleEndian
	data := le.AppendUint32(nil, uint32(r.Types))
	if !d.accepted.Has(virtio.NetRSS) {
		data = append(data, make([]byte, 8)...)
		return command{virtio.CtrlMQHashConfig, appendKey(data, r.Key)}
	}
	data = le.AppendUint16(data, uint16(len(r.Table)-1))
	data = le.AppendUint16(data, 0) // where packets without a hash go
	for _, q := range r.Table {
		data = le.AppendUint16(data, q)
	}
	data = le.AppendUint16(data, uint16(max(d.cfg.RxQueues, d.cfg.TxQueues)))
	return command{virtio.CtrlMQRSSConfig, appendKey(data, r.Key)}
}

func appendKey(data, key []byte) []byte {
	return append(append(data, byte(len(key))), key...)
}
