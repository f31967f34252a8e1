package pci

import (
	"bytes"
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

func TestModernFeatures(t *testing.T) {
	const offered = virtio.Version1 | virtio.NetMAC | virtio.NetSpeedDuplex
	m, common, _, _ := newFakeModern(offered)
	if got := m.features(); got != offered {
		t.Errorf("features %v, want %v", got, offered)
	}
	common.log = nil
	if err := m.setFeatures(virtio.Version1 | virtio.NetMAC); err != nil {
		t.Fatal(err)
	}
	want := []regAccess{
		{"w", 8, 4, 0}, {"w", 12, 4, 1 << 5},
		{"w", 8, 4, 1}, {"w", 12, 4, 1 << 0},
	}
	if diff := cmp.Diff(want, common.log); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestModernSetupQueue(t *testing.T) {
	m, common, notify, _ := newFakeModern(0)
	k, err := m.setupQueue(port.QueueSetup{
		Index: 1, Size: 128,
		Desc:  mbuf.Zone{IOVA: 0x1122334455660000},
		Avail: mbuf.Zone{IOVA: 0x0000000155661000},
		Used:  mbuf.Zone{IOVA: 0x0000007fffffe000},
	}, noVector)
	if err != nil {
		t.Fatal(err)
	}
	want := []regAccess{
		{"w", 22, 2, 1},   // select
		{"w", 24, 2, 128}, // size
		{"w", 26, 2, 0xffff},
		{"w", 32, 4, 0x55660000}, {"w", 36, 4, 0x11223344},
		{"w", 40, 4, 0x55661000}, {"w", 44, 4, 1},
		{"w", 48, 4, 0xffffe000}, {"w", 52, 4, 0x7f},
		{"w", 28, 2, 1}, // enable, last
	}
	if diff := cmp.Diff(want, common.writes()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	k.Kick(9)
	if diff := cmp.Diff([]regAccess{{"w", 4, 2, 1}}, notify.log); diff != "" {
		t.Errorf("kick (-want +got)\n%s", diff)
	}
}

func TestModernSetupQueueRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		setup  port.QueueSetup
		change func(m *modern, common *fakeRegisters)
		err    error
		text   string
	}{
		{name: "no such queue", setup: port.QueueSetup{Index: 2, Size: 256}, err: port.ErrInvalid, text: "virtqueue 2 does not exist"},
		{name: "negative", setup: port.QueueSetup{Index: -1, Size: 256}, err: port.ErrInvalid, text: "does not exist"},
		{name: "beyond 16 bits", setup: port.QueueSetup{Index: 65536, Size: 256}, err: port.ErrInvalid, text: "does not exist"},
		{name: "too large", setup: port.QueueSetup{Size: 512}, err: port.ErrInvalid, text: "takes 1 to 256"},
		{name: "empty", setup: port.QueueSetup{Size: 0}, err: port.ErrInvalid, text: "takes 1 to 256"},
		{name: "not from the start", setup: port.QueueSetup{Size: 256, Base: 7}, err: port.ErrNotSupported, text: "entry 7"},
		{
			name: "notification register outside", setup: port.QueueSetup{Index: 1, Size: 256},
			change: func(m *modern, _ *fakeRegisters) { m.notifyMultiplier = 64 },
			text:   "0x40 lies outside the structure of 0x40 bytes",
		},
		{
			name: "size above the limit", setup: port.QueueSetup{Size: 256},
			change: func(_ *modern, common *fakeRegisters) {
				common.onRead = func(offset, width int) {
					if offset == regQueueSize {
						common.set16(regQueueSize, 65535)
					}
				}
			},
			text: "65535",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, common, _, _ := newFakeModern(0)
			if tt.change != nil {
				tt.change(m, common)
			}
			_, err := m.setupQueue(tt.setup, noVector)
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want one with %q", err, tt.text)
			}
			if tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			for _, w := range common.writes() {
				if w.Offset != regQueueSelect {
					t.Errorf("wrote %+v", w)
				}
			}
		})
	}
}

// Under NOTIFICATION_DATA a kick says how far the queue goes, in a register of
// 32 bits that must have room and be aligned.
func TestModernNotificationData(t *testing.T) {
	m, _, notify, _ := newFakeModern(0)
	if err := m.setFeatures(virtio.Version1 | virtio.NotificationData); err != nil {
		t.Fatal(err)
	}
	k, err := m.setupQueue(port.QueueSetup{Index: 1, Size: 256}, noVector)
	if err != nil {
		t.Fatal(err)
	}
	k.Kick(0x8123)
	if diff := cmp.Diff([]regAccess{{"w", 4, 4, 0x81230001}}, notify.log); diff != "" {
		t.Errorf("kick (-want +got)\n%s", diff)
	}
	m.notifyMultiplier = 2
	if _, err := m.setupQueue(port.QueueSetup{Index: 1, Size: 256}, noVector); err == nil || !strings.Contains(err.Error(), "not aligned to 4") {
		t.Errorf("a register at 2: %v", err)
	}
	m.notifyMultiplier, notify.bytes = 4, notify.bytes[:6]
	if _, err := m.setupQueue(port.QueueSetup{Index: 1, Size: 256}, noVector); err == nil || !strings.Contains(err.Error(), "outside") {
		t.Errorf("a register of two bytes: %v", err)
	}
	if err := m.reset(time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := m.setupQueue(port.QueueSetup{Index: 1, Size: 256}, noVector); err != nil {
		t.Errorf("after a reset two bytes do: %v", err)
	}
}

func TestModernResetQueue(t *testing.T) {
	m, common, _, _ := newFakeModern(0)
	reset := func(index int) error { return m.resetQueue(index, time.Minute) }
	if err := reset(0); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("without RING_RESET: %v", err)
	}
	if err := m.setFeatures(virtio.Version1 | virtio.RingReset); err != nil {
		t.Fatal(err)
	}
	if err := reset(2); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("no such queue: %v", err)
	}
	read := common.onRead
	reads := 0
	common.onRead = func(offset, width int) {
		read(offset, width)
		if offset == regQueueReset {
			if reads++; reads == 3 {
				common.set16(regQueueReset, 0) // quiet only after a while
			}
		}
	}
	common.log = nil
	if err := reset(1); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]regAccess{{"w", 22, 2, 1}, {"w", 58, 2, 1}}, common.writes()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if reads != 3 {
		t.Errorf("asked %d times, want 3", reads)
	}
	if err := m.resetQueue(0, time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not become quiet") {
		t.Errorf("a queue that does not become quiet: %v", err)
	}
	common.bytes[regDeviceStatus] = 0xff
	if err := reset(0); !errors.Is(err, ErrGone) {
		t.Errorf("a device that is gone: %v", err)
	}
	common.bytes = common.bytes[:commonConfigSize]
	if err := reset(0); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("a device without the register: %v", err)
	}
}

func TestModernReset(t *testing.T) {
	m, common, _, _ := newFakeModern(0)
	common.bytes[regDeviceStatus] = 0x0f
	reads := 0
	common.onWrite = func(offset int, v uint32) {
		if offset == regDeviceStatus {
			common.bytes[regDeviceStatus] = 0x0f // quiet only after a while
		}
	}
	common.onRead = func(offset, width int) {
		if reads++; reads == 3 {
			common.bytes[regDeviceStatus] = 0
		}
	}
	if err := m.reset(time.Minute); err != nil {
		t.Fatal(err)
	}
	want := []regAccess{
		{"w", 20, 1, 0},
		{"r", 20, 1, 0x0f}, {"r", 20, 1, 0x0f}, {"r", 20, 1, 0},
	}
	if diff := cmp.Diff(want, common.log); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestModernResetFails(t *testing.T) {
	m, common, _, _ := newFakeModern(0)
	common.onRead = func(int, int) { common.bytes[regDeviceStatus] = 0x0f }
	if err := m.reset(5 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "ACKNOWLEDGE") {
		t.Errorf("error %v, want one with the status", err)
	}
	common.onRead = func(int, int) { common.bytes[regDeviceStatus] = 0xff }
	if err := m.reset(time.Minute); !errors.Is(err, ErrGone) {
		t.Errorf("error %v, want ErrGone", err)
	}
}

func TestModernReadConfig(t *testing.T) {
	m, _, _, device := newFakeModern(0)
	for i := range device.bytes {
		device.bytes[i] = byte(0x80 + i)
	}
	for _, tt := range []struct {
		offset, n int
		widths    []int
	}{
		{virtio.ConfigMAC, 6, []int{1, 1, 1, 1, 1, 1}},
		{virtio.ConfigStatus, 2, []int{2}},
		{virtio.ConfigSpeed, 4, []int{4}},
		{virtio.ConfigDuplex, 1, []int{1}},
		{virtio.ConfigRSSKeyMax, 1, []int{1}},
		{8, 8, []int{4, 4}},
		{1, 2, []int{1, 1}}, // not a field
		{63, 1, []int{1}},
		{64, 0, nil},
	} {
		device.log = nil
		got := make([]byte, tt.n)
		if err := m.readConfig(tt.offset, got); err != nil {
			t.Fatal(err)
		}
		if want := device.bytes[tt.offset : tt.offset+tt.n]; !bytes.Equal(got, want) {
			t.Errorf("%d bytes at %d: % x, want % x", tt.n, tt.offset, got, want)
		}
		var widths []int
		for _, a := range device.log {
			widths = append(widths, a.Width)
		}
		if diff := cmp.Diff(tt.widths, widths); diff != "" {
			t.Errorf("%d bytes at %d: widths (-want +got)\n%s", tt.n, tt.offset, diff)
		}
	}
	for _, bad := range [][2]int{{-1, 2}, {63, 2}, {1 << 30, 1}} {
		if err := m.readConfig(bad[0], make([]byte, bad[1])); err == nil {
			t.Errorf("read of %d bytes at %d was accepted", bad[1], bad[0])
		}
	}
}

// A configuration that changes while it is read is read again; one that never
// stops changing is an error.
func TestModernReadConfigCoherent(t *testing.T) {
	m, common, _, device := newFakeModern(0)
	const changes = 3
	n := 0
	device.onRead = func(offset, width int) {
		if offset == 4 && n < changes {
			n++
			common.bytes[regConfigGeneration]++
			binary.LittleEndian.PutUint64(device.bytes, uint64(n)<<32|uint64(n))
		}
	}
	var b [8]byte
	if err := m.readConfig(0, b[:]); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint64(b[:]); got != changes<<32|changes {
		t.Errorf("read %#x: halves of two configurations", got)
	}

	common.onRead = func(offset, width int) { common.bytes[regConfigGeneration]++ }
	common.log = nil
	if err := m.readConfig(0, b[:]); err == nil {
		t.Error("a configuration that always changes was read")
	}
	if len(common.log) != 2*configRetries {
		t.Errorf("%d reads of the generation, want %d", len(common.log), 2*configRetries)
	}
}
