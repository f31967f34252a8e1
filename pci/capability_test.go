package pci

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testCap is a capability to lay into a configuration space.
type testCap struct {
	id     byte
	len    byte // cap_len
	kind   byte // cfg_type
	bar    byte
	offset uint32
	length uint32
	after  []byte // what follows the 16 bytes of struct virtio_pci_cap
}

// testConfig lays capabilities one after the other, from 0x40 on.
func testConfig(caps ...testCap) []byte {
	config := make([]byte, 256)
	binary.LittleEndian.PutUint16(config[cfgStatus:], statusCapList)
	at := cfgHeaderSize
	link := cfgCapabilities
	for _, c := range caps {
		config[link] = byte(at)
		b := config[at:]
		b[0], b[2], b[3], b[4] = c.id, c.len, c.kind, c.bar
		binary.LittleEndian.PutUint32(b[8:], c.offset)
		binary.LittleEndian.PutUint32(b[12:], c.length)
		copy(b[16:], c.after)
		link = at + 1
		at += (16 + len(c.after) + 3) &^ 3
	}
	return config
}

func commonCap() testCap {
	return testCap{id: 9, len: 16, kind: 1, bar: 4, offset: 0, length: 0x1000}
}

func isrCap() testCap {
	return testCap{id: 9, len: 16, kind: 3, bar: 4, offset: 0x1000, length: 0x1000}
}

func deviceCap() testCap {
	return testCap{id: 9, len: 16, kind: 4, bar: 4, offset: 0x2000, length: 0x1000}
}

func notifyCap(multiplier uint32) testCap {
	return testCap{id: 9, len: 20, kind: 2, bar: 4, offset: 0x3000, length: 0x1000, after: binary.LittleEndian.AppendUint32(nil, multiplier)}
}

// goodCaps is what QEMU shows, in its order.
func goodCaps() []testCap {
	return []testCap{commonCap(), isrCap(), deviceCap(), notifyCap(4)}
}

var testBARs = [numBARs]uint64{1: 0x1000, 4: 0x4000}

// found is the result for goodCaps.
func found() Capabilities {
	return Capabilities{
		Common:           Structure{BAR: 4, Offset: 0, Length: 0x1000},
		ISR:              Structure{BAR: 4, Offset: 0x1000, Length: 0x1000},
		Device:           Structure{BAR: 4, Offset: 0x2000, Length: 0x1000},
		Notify:           Structure{BAR: 4, Offset: 0x3000, Length: 0x1000},
		NotifyMultiplier: 4,
	}
}

func TestB02CapabilityWalk(t *testing.T) {
	// with puts caps in front of the good ones.
	with := func(caps ...testCap) []byte { return testConfig(append(caps, goodCaps()...)...) }
	// without leaves the good capability of a type out and puts caps at the end.
	without := func(kind byte, caps ...testCap) []byte {
		var rest []testCap
		for _, c := range goodCaps() {
			if c.kind != kind {
				rest = append(rest, c)
			}
		}
		return testConfig(append(rest, caps...)...)
	}
	multiplier := func(m uint32) func(*Capabilities) {
		return func(c *Capabilities) { c.NotifyMultiplier = m }
	}
	padded := commonCap()
	padded.len, padded.after = 24, []byte{1, 2, 3, 4, 5, 6, 7, 8}
	shortNotify := notifyCap(4)
	shortNotify.len = 16
	elsewhere := commonCap()
	elsewhere.offset = 0x2000
	inBAR := func(c testCap, bar byte, offset, length uint32) testCap {
		c.bar, c.offset, c.length = bar, offset, length
		return c
	}
	loop := testConfig(goodCaps()...)
	loop[0x40+16*3+1] = 0x40 // the last one points to the first
	lostInLoop := testConfig(commonCap(), isrCap())
	lostInLoop[0x50+1] = 0x40
	noList := testConfig(goodCaps()...)
	noList[cfgStatus] = 0

	for _, tt := range []struct {
		name   string
		config []byte
		bars   [numBARs]uint64
		change func(*Capabilities) // what differs from found()
		err    error
		text   string // the error says so
	}{
		{name: "as QEMU shows them", config: testConfig(goodCaps()...)},
		{name: "1: another capability that looks like one", config: with(testCap{id: 0x11, len: 16, kind: 1, bar: 1, length: 0x1000})},
		{name: "2: cap_len with padding", config: without(1, padded)},
		{name: "3: notify capability of 16 bytes", config: without(2, shortNotify), err: ErrCapability, text: "notification"},
		{name: "4: bar 6", config: with(inBAR(commonCap(), 6, 0, 0x1000))},
		{name: "4: bar 7", config: with(inBAR(commonCap(), 7, 0, 0x1000))},
		{name: "4: bar 255", config: with(inBAR(commonCap(), 255, 0, 0x1000))},
		{name: "4: bar 255 and no other", config: without(1, inBAR(commonCap(), 255, 0, 0x1000)), err: ErrCapability, text: "no common configuration structure"},
		{name: "5: two, the first wins", config: with(elsewhere), change: func(c *Capabilities) { c.Common.Offset = 0x2000 }},
		{name: "5: two, the first is not usable", config: with(inBAR(commonCap(), 4, 0x3ffc, 0x1000))},
		{name: "6: past the end of the BAR", config: without(4, inBAR(deviceCap(), 4, 0x3ffc, 8)), err: ErrCapability, text: "device configuration"},
		{name: "6: in a BAR that is not there", config: without(4, inBAR(deviceCap(), 2, 0, 8)), err: ErrCapability, text: "BAR 2 of 0x0 bytes"},
		{name: "6: wraps 32 bits", config: without(4, inBAR(deviceCap(), 4, 0xfffffffc, 0x104)), err: ErrCapability, text: "overflow"},
		{name: "6: wraps 32 bits in a huge BAR", config: without(4, inBAR(deviceCap(), 5, 0xfffffffc, 0x104)), bars: [numBARs]uint64{4: 0x4000, 5: 1 << 40}, err: ErrCapability, text: "overflow"},
		{name: "7: loop with everything in it", config: loop},
		{name: "7: loop without the rest", config: lostInLoop, err: ErrCapability, text: "no notification structure"},
		{name: "8: cut at 64 bytes", config: testConfig(goodCaps()...)[:64], err: ErrConfigTruncated, text: "64 bytes"},
		{name: "8: cut within a capability", config: testConfig(goodCaps()...)[:0x40+16*3+18], err: ErrConfigTruncated, text: "run as root"},
		{name: "8: cut within a capability's header", config: testConfig(goodCaps()...)[:0x42], err: ErrConfigTruncated},
		{name: "8: empty", config: nil, err: ErrConfigTruncated, text: "0 bytes"},
		{name: "9: multiplier 0", config: without(2, notifyCap(0)), change: multiplier(0)},
		{name: "9: multiplier 2", config: without(2, notifyCap(2)), change: multiplier(2)},
		{name: "9: multiplier 4", config: without(2, notifyCap(4)), change: multiplier(4)},
		{name: "9: multiplier 4096", config: without(2, notifyCap(4096)), change: multiplier(4096)},
		{name: "multiplier 1 would not be aligned", config: without(2, notifyCap(1)), err: ErrCapability, text: "multiplier 1"},
		{name: "multiplier 6", config: without(2, notifyCap(6)), err: ErrCapability, text: "multiplier 6"},
		{name: "structure too small", config: without(1, inBAR(commonCap(), 4, 0, 55)), err: ErrCapability, text: "has 55 bytes and needs 56"},
		{name: "not aligned", config: without(1, inBAR(commonCap(), 4, 2, 0x100)), err: ErrCapability, text: "multiple of 4"},
		{name: "no capability list", config: noList, err: ErrNotModern},
		{name: "other capabilities only", config: testConfig(testCap{id: 0x11, len: 12}), err: ErrNotModern},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bars := tt.bars
			if bars == ([numBARs]uint64{}) {
				bars = testBARs
			}
			got, err := FindCapabilities(tt.config, bars)
			want := found()
			if tt.change != nil {
				tt.change(&want)
			}
			if tt.err != nil {
				want = Capabilities{}
				if err == nil || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("error %v, want one with %q", err, tt.text)
				}
			}
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A list that never ends is left after as many capabilities as there can be.
func TestB02LoopIsBounded(t *testing.T) {
	// Each capability points to itself, but the walk counts steps.
	config := testConfig(testCap{id: 9, len: 16, kind: 9})
	config[0x41] = 0x40
	w := &capabilityWalk{config: config, bars: testBARs}
	if err := w.run(); !errors.Is(err, ErrNotModern) {
		t.Errorf("error %v, want ErrNotModern", err)
	}
}

func FuzzFindCapabilities(f *testing.F) {
	f.Add(testConfig(goodCaps()...), uint64(0x1000), uint64(0x4000))
	f.Add(testConfig(goodCaps()...)[:64], uint64(0), uint64(0x4000))
	f.Add(testConfig(notifyCap(3), commonCap()), uint64(0x1000), uint64(1<<40))
	f.Add([]byte{}, uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, config []byte, bar1, bar4 uint64) {
		if at := findMSIX(config); at != 0 && (at < cfgHeaderSize || at+4 > len(config)) {
			t.Fatalf("MSI-X capability at %#x of %#x bytes", at, len(config))
		}
		bars := [numBARs]uint64{1: bar1, 4: bar4}
		c, err := FindCapabilities(config, bars)
		if err != nil {
			if c != (Capabilities{}) {
				t.Fatalf("an error and a result: %v, %+v", err, c)
			}
			return
		}
		for _, s := range []Structure{c.Common, c.Notify, c.ISR, c.Device} {
			if s.BAR < 0 || s.BAR >= numBARs || uint64(s.Offset) > bars[s.BAR] || uint64(s.Length) > bars[s.BAR]-uint64(s.Offset) {
				t.Fatalf("structure %+v lies outside of its BAR: %v", s, bars)
			}
		}
		if c.Common.Length < 56 || c.Common.Offset%4 != 0 || c.NotifyMultiplier%2 != 0 || c.Notify.Offset%2 != 0 {
			t.Fatalf("not usable: %+v", c)
		}
	})
}
