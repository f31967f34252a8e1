package pci

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

func newMemory(t *testing.T, mode mbuf.IOVAMode, ranges ...mbuf.AddrRange) *mbuf.Memory {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 64 << 10, NoHuge: true, IOVA: mode, Ranges: ranges})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	return mem
}

func TestTransport(t *testing.T) {
	offered := virtio.Version1 | virtio.AccessPlatform | virtio.NetMAC
	a, common, notify, device := newFakeAccess(offered)
	a.command = 0x400
	common.bytes[regDeviceStatus] = 7 // somebody left it running
	tr, err := newTransport("0000:00:01.0", a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := tr.Status(); s != 0 || err != nil {
		t.Errorf("status %v, %v after open, want RESET", s, err)
	}
	if a.command != 0x407 {
		t.Errorf("PCI command %#x, want I/O and memory decoding and bus master on", a.command)
	}
	if got := tr.Addressing(); got.Mode != mbuf.IOVARanges || len(got.Ranges) != 1 {
		t.Errorf("addressing %+v, want the ranges of the IOMMU", got)
	}
	mem := newMemory(t, mbuf.IOVARanges, tr.Addressing().Ranges...)
	if err := tr.Map(mem); err != nil {
		t.Fatal(err)
	}
	if len(a.mapped) != 1 || a.mapped[0].IOVA != 1<<32 {
		t.Errorf("mapped %+v, want the memory at the first usable address", a.mapped)
	}
	if err := tr.SetStatus(virtio.StatusAcknowledge | virtio.StatusDriver); err != nil {
		t.Fatal(err)
	}
	if f, err := tr.Features(); f != offered || err != nil {
		t.Errorf("features %v, %v, want %v", f, err, offered)
	}
	if err := tr.SetFeatures(virtio.Version1); err != nil {
		t.Fatal(err)
	}
	copy(device.bytes, "\x52\x54\x00\x12\x34\x56")
	var mac [6]byte
	if err := tr.ReadConfig(virtio.ConfigMAC, mac[:]); err != nil || mac != [6]byte{0x52, 0x54, 0, 0x12, 0x34, 0x56} {
		t.Errorf("MAC % x, %v", mac, err)
	}
	for index, want := range map[int]int{0: 256, 1: 256, 2: 0} {
		if n, err := tr.QueueSize(index); n != want || err != nil {
			t.Errorf("queue %d has size %d, %v; want %d", index, n, err, want)
		}
	}
	k, err := tr.SetupQueue(port.QueueSetup{Index: 1, Size: 256})
	if err != nil {
		t.Fatal(err)
	}
	k.Kick(7)
	if diff := cmp.Diff([]regAccess{{"w", 4, 2, 1}}, notify.log); diff != "" {
		t.Errorf("kick (-want +got)\n%s", diff)
	}
	if err := tr.EnablePairs(2); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("EnablePairs: %v", err)
	}
	common.log = nil
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	want := []regAccess{{"w", 20, 1, 0}, {"r", 20, 1, 0}}
	if diff := cmp.Diff(want, common.log); diff != "" {
		t.Errorf("close (-want +got)\n%s", diff)
	}
	if a.command != 0x403 {
		t.Errorf("PCI command %#x after close, want the bus master off", a.command)
	}
	if err := tr.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if a.closed != 1 || common.closed != 1 || notify.closed != 1 || device.closed != 1 {
		t.Errorf("closed access %d, windows %d %d %d times, want once", a.closed, common.closed, notify.closed, device.closed)
	}
	if _, err := tr.Status(); !errors.Is(err, port.ErrClosed) {
		t.Errorf("status after close: %v", err)
	}
	if err := tr.Reset(time.Second); !errors.Is(err, port.ErrClosed) {
		t.Errorf("reset after close: %v", err)
	}
}

// The device is not let loose on memory before it was reset.
func TestTransportResetsBeforeDMA(t *testing.T) {
	a, common, _, _ := newFakeAccess(virtio.Version1)
	common.onWrite = func(offset int, v uint32) {
		if offset == regDeviceStatus && a.command != 0 {
			t.Errorf("reset with PCI command %#x", a.command)
		}
	}
	if _, err := newTransport("0000:00:01.0", a, Options{}); err != nil {
		t.Fatal(err)
	}
}

func TestTransportPhysical(t *testing.T) {
	a, _, _, _ := newFakeAccess(virtio.Version1)
	tr, err := newTransport("0000:00:01.0", a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := tr.Addressing(); got.Mode != mbuf.IOVAPhysical {
		t.Errorf("addressing %+v for a device without ACCESS_PLATFORM, want physical", got)
	}
	err = tr.Map(newMemory(t, mbuf.IOVARanges, mbuf.AddrRange{First: 0, Last: 1 << 40}))
	if err == nil || !strings.Contains(err.Error(), "--iova-mode=pa") || len(a.mapped) > 0 {
		t.Errorf("memory with other addresses: %v, mapped %+v", err, a.mapped)
	}
}

func TestTransportMapError(t *testing.T) {
	a, _, _, _ := newFakeAccess(virtio.Version1 | virtio.AccessPlatform)
	a.mapErr = mapError(mbuf.Region{Bytes: make([]byte, 4096), IOVA: 1 << 32}, unix.ENOMEM)
	tr, err := newTransport("0000:00:01.0", a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = tr.Map(newMemory(t, mbuf.IOVARanges, tr.Addressing().Ranges...))
	if !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), "ulimit -l") {
		t.Errorf("error %v, want ENOMEM and ulimit -l", err)
	}
}

func TestTransportOpenFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(a *fakeAccess, common *fakeRegisters)
		err    error
		text   string
	}{
		{
			name:   "neither modern nor legacy",
			change: func(a *fakeAccess, _ *fakeRegisters) { a.space = make([]byte, 256) },
			err:    ErrNotModern, text: "legacy",
		},
		{
			name:   "broken capability",
			change: func(a *fakeAccess, _ *fakeRegisters) { a.space = testConfig(commonCap()) },
			err:    ErrCapability, text: "0000:00:01.0",
		},
		{
			name:   "window that can't be opened",
			change: func(a *fakeAccess, _ *fakeRegisters) { a.failAt = 0x2000 },
			err:    unix.EAGAIN,
		},
		{
			name: "device that is gone",
			change: func(_ *fakeAccess, common *fakeRegisters) {
				common.onRead = func(int, int) { common.bytes[regDeviceStatus] = 0xff }
			},
			err: ErrGone,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, common, notify, device := newFakeAccess(virtio.Version1)
			tt.change(a, common)
			_, err := newTransport("0000:00:01.0", a, Options{})
			if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v with %q", err, tt.err, tt.text)
			}
			if a.closed != 0 {
				t.Error("the access was closed, but belongs to the caller")
			}
			opened := 0
			if errors.Is(tt.err, unix.EAGAIN) {
				opened = 2 // the two before the one that failed
			} else if errors.Is(tt.err, ErrGone) {
				opened = 3 // and the ISR status
			}
			if n := common.closed + notify.closed + device.closed; n != opened {
				t.Errorf("%d windows were closed, want %d", n, opened)
			}
		})
	}
}
