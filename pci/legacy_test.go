package pci

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// msixCap is an MSI-X capability, with the function's vectors switched off.
func msixCap() testCap { return testCap{id: capMSIX} }

// newFakeLegacy is a legacy device with two queues of 256 descriptors.
func newFakeLegacy(caps ...testCap) (a *fakeAccess, bar *fakeRegisters) {
	bar = &fakeRegisters{bytes: make([]byte, 64)}
	bar.onRead = func(offset, width int) {
		if offset == legQueueSize {
			size := uint16(0)
			if binary.LittleEndian.Uint16(bar.bytes[legQueueSelect:]) < 2 {
				size = 256
			}
			bar.set16(legQueueSize, size)
		}
	}
	a = &fakeAccess{
		space:   testConfig(caps...),
		windows: map[uint32]*fakeRegisters{0: bar},
		bars:    [numBARs]uint64{0: 64},
		routes:  map[int]int{},
	}
	return a, bar
}

func openFakeLegacy(t *testing.T, caps ...testCap) (*legacy, *fakeAccess, *fakeRegisters) {
	t.Helper()
	a, bar := newFakeLegacy(caps...)
	l, err := openLegacy(a, a.space)
	if err != nil {
		t.Fatal(err)
	}
	return l, a, bar
}

// A device without modern registers is driven through the legacy ones, at
// physical addresses.
func TestLegacyTransport(t *testing.T) {
	a, bar := newFakeLegacy(msixCap())
	bar.set32(legDeviceFeatures, 0xffffffff)
	bar.bytes[legDeviceStatus] = 7 // somebody left it running
	tr, err := newTransport("0000:00:01.0", a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if s, err := tr.Status(); s != 0 || err != nil {
		t.Errorf("status %v, %v after open, want RESET", s, err)
	}
	if got := tr.Addressing().Mode; got != mbuf.IOVAPhysical {
		t.Errorf("addressing %v, want physical", got)
	}
	if err := tr.SetStatus(virtio.StatusAcknowledge | virtio.StatusDriver | virtio.StatusFeaturesOK); err != nil {
		t.Fatal(err)
	}
	if s, err := tr.Status(); s != virtio.StatusAcknowledge|virtio.StatusDriver || err != nil {
		t.Errorf("status %v, %v: a legacy device has no FEATURES_OK", s, err)
	}
	if err := tr.ResetQueue(0, time.Second); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("reset of a queue: %v", err)
	}
}

// Whatever lies behind the 32 feature bits is none.
func TestB05LegacyFeatures(t *testing.T) {
	l, _, bar := openFakeLegacy(t)
	bar.set32(legDeviceFeatures, 1<<5|1<<27)
	bar.set32(legDriverFeatures, 0xdeadbeef) // noise where 64 bits would end
	if got := l.features(); got != virtio.NetMAC|virtio.AnyLayout {
		t.Errorf("features %v, want MAC and ANY_LAYOUT", got)
	}
	bar.log = nil
	if err := l.setFeatures(virtio.NetMAC); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]regAccess{{"w", 4, 4, 1 << 5}}, bar.log); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := l.setFeatures(virtio.NetMAC | virtio.Version1); !errors.Is(err, port.ErrNotSupported) || !strings.Contains(err.Error(), "VERSION_1") {
		t.Errorf("VERSION_1: %v", err)
	}
}

// legacyRing is a ring of 256 descriptors in the legacy layout: 4096 bytes of
// descriptors, 518 of available ring, the used ring on the next page.
func legacyRing(index int, start uint64) port.QueueSetup {
	return port.QueueSetup{
		Index: index, Size: 256,
		Desc:  mbuf.Zone{IOVA: start},
		Avail: mbuf.Zone{IOVA: start + 4096},
		Used:  mbuf.Zone{IOVA: start + 8192},
	}
}

func TestLegacySetupQueue(t *testing.T) {
	l, _, bar := openFakeLegacy(t)
	k, err := l.setupQueue(legacyRing(1, 0xfffffffd000), noVector)
	if err != nil {
		t.Fatal(err)
	}
	k.Kick(5)
	want := []regAccess{{"w", 14, 2, 1}, {"w", 8, 4, 0xfffffffd}, {"w", 16, 2, 1}}
	if diff := cmp.Diff(want, bar.writes()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLegacySetupQueueRefused(t *testing.T) {
	change := func(f func(q *port.QueueSetup)) port.QueueSetup {
		q := legacyRing(0, 0x10000)
		f(&q)
		return q
	}
	for _, tt := range []struct {
		name  string
		setup port.QueueSetup
		text  string
	}{
		{"no such queue", legacyRing(2, 0x10000), "does not exist"},
		{"beyond 16 bits", legacyRing(0x10000, 0x10000), "does not exist"},
		{"smaller than the device's", change(func(q *port.QueueSetup) { q.Size = 128 }), "its own number, 256"},
		{"larger than the device's", change(func(q *port.QueueSetup) { q.Size = 512 }), "takes 1 to 256"},
		{"available ring elsewhere", change(func(q *port.QueueSetup) { q.Avail.IOVA += 64 }), "in one block"},
		{"used ring elsewhere", change(func(q *port.QueueSetup) { q.Used.IOVA += 4096 }), "in one block"},
		{"not aligned", legacyRing(0, 0x10800), "multiple of 4096"},
		{"above 44 bits", legacyRing(0, 1<<44), "below 16 TiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _, bar := openFakeLegacy(t)
			_, err := l.setupQueue(tt.setup, noVector)
			if !errors.Is(err, port.ErrInvalid) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want port.ErrInvalid with %q", err, tt.text)
			}
			for _, w := range bar.writes() {
				if w.Offset != legQueueSelect {
					t.Errorf("wrote %+v", w)
				}
			}
		})
	}
}

// A configuration that changes while it is read is read again; one that never
// stops changing is an error.
func TestLegacyReadConfigCoherent(t *testing.T) {
	l, _, bar := openFakeLegacy(t)
	changes, n := 3, uint32(0)
	bar.onRead = func(offset, width int) {
		if offset == legConfig+4 && changes > 0 {
			changes--
			n++
			bar.set32(legConfig, n)
			bar.set32(legConfig+4, n)
		}
	}
	var b [8]byte
	if err := l.readConfig(0, b[:]); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint64(b[:]); got != 3<<32|3 {
		t.Errorf("read %#x: halves of two configurations", got)
	}
	changes = 1 << 20
	if err := l.readConfig(0, b[:]); err == nil {
		t.Error("a configuration that always changes was read")
	}
	for _, bad := range [][2]int{{-1, 2}, {43, 2}, {1 << 30, 1}} {
		if err := l.readConfig(bad[0], make([]byte, bad[1])); err == nil {
			t.Errorf("read of %d bytes at %d was accepted", bad[1], bad[0])
		}
	}
}

// The vectors are written while MSI-X is enabled, and read back.
func TestLegacyVectors(t *testing.T) {
	l, a, bar := openFakeLegacy(t, msixCap())
	if err := l.setConfigVector(0); !errors.Is(err, port.ErrState) {
		t.Errorf("a vector without MSI-X: %v", err)
	}
	if err := l.setConfigVector(noVector); err != nil {
		t.Error(err)
	}
	if len(bar.log) != 0 {
		t.Errorf("registers touched without MSI-X: %+v", bar.log)
	}
	a.vectors = 3
	if _, err := a.enableVectors(3); err != nil {
		t.Fatal(err)
	}
	if err := l.setConfigVector(0); err != nil {
		t.Error(err)
	}
	if _, err := l.setupQueue(legacyRing(0, 0x10000), 1); err != nil {
		t.Error(err)
	}
	want := []regAccess{{"w", 20, 2, 0}, {"w", 14, 2, 0}, {"w", 22, 2, 1}, {"w", 8, 4, 0x10}}
	if diff := cmp.Diff(want, bar.writes()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	bar.onWrite = func(offset int, v uint32) { bar.set16(offset, noVector) }
	if err := l.setConfigVector(0); err == nil || !strings.Contains(err.Error(), "refuses MSI-X vector 0") {
		t.Errorf("a vector that the device refuses: %v", err)
	}
}

func TestLegacyNoRoom(t *testing.T) {
	a, _ := newFakeLegacy()
	a.bars[0] = 20
	if _, err := openLegacy(a, a.space); !errors.Is(err, ErrNotModern) {
		t.Errorf("a BAR of 20 bytes: %v", err)
	}
}

// Nothing that a legacy device's registers and capabilities hold makes the
// driver panic or read outside of them.
func FuzzLegacy(f *testing.F) {
	f.Add(testConfig(msixCap()), make([]byte, 64), 0, 6)
	f.Add(testConfig(), []byte(strings.Repeat("\xff", 64)), 16, 8)
	f.Add([]byte{}, []byte{}, -1, 1)
	f.Fuzz(func(t *testing.T, space, content []byte, offset, length int) {
		bar := &fakeRegisters{bytes: make([]byte, 64)}
		copy(bar.bytes, content)
		a := &fakeAccess{space: append(space, 0, 0, 0), windows: map[uint32]*fakeRegisters{0: bar}, bars: [numBARs]uint64{0: 64}}
		l, err := openLegacy(a, space)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.readConfig(offset, make([]byte, length&0xff))
		if size, err := l.queueSize(offset); err == nil && size > 1<<15 {
			t.Errorf("a queue of %d", size)
		}
		_, _ = l.setupQueue(legacyRing(offset, 0x10000), noVector)
	})
}
