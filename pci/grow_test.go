package pci

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/virtio"
)

func TestMemoryThatGrowsIsMapped(t *testing.T) {
	a, _, _, _ := newFakeAccess(virtio.Version1 | virtio.AccessPlatform)
	tr, err := newTransport("0000:00:01.0", a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mem := newMemory(t, mbuf.IOVARanges, mbuf.AddrRange{First: 1 << 32, Last: 1<<33 - 1})
	if err := tr.Map(mem); err != nil {
		t.Fatal(err)
	}
	before := len(a.mapped)
	if _, err := mem.Grow(1 << 16); err != nil {
		t.Fatal(err)
	}
	if len(a.mapped) != before+1 {
		t.Errorf("%d regions mapped after the growth, want %d", len(a.mapped), before+1)
	}
	// What another device can't have is taken back here.
	stop := mem.OnGrow(func([]mbuf.Region) error { return errors.New("no") })
	if _, err := mem.Grow(1 << 16); err == nil {
		t.Error("a refused growth succeeded")
	}
	stop()
	if len(a.mapped) != before+1 {
		t.Errorf("%d regions mapped after the refused growth, want %d", len(a.mapped), before+1)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := mem.Grow(1 << 16); err != nil {
		t.Errorf("memory does not grow after the device was closed: %v", err)
	}
	if a.mapped != nil {
		t.Error("memory is mapped after Close")
	}
}

// Memory that an application registers is mapped, and unmapped when it is taken
// back.
func TestRegisteredMemoryIsMapped(t *testing.T) {
	a, _, _, _ := newFakeAccess(virtio.Version1 | virtio.AccessPlatform)
	tr, err := newTransport("0000:00:01.0", a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	mem := newMemory(t, mbuf.IOVARanges, mbuf.AddrRange{First: 1 << 32, Last: 1<<33 - 1})
	if err := tr.Map(mem); err != nil {
		t.Fatal(err)
	}
	area, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(area)
	before := len(a.mapped)
	r, err := mem.Register(mbuf.Area{Bytes: area})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.mapped) != before+1 || &a.mapped[before].Bytes[0] != &area[0] {
		t.Errorf("%d regions mapped, want %d", len(a.mapped), before+1)
	}
	if err := r.Unregister(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(a.mapped) != before {
		t.Errorf("%d regions are mapped afterwards, want %d", len(a.mapped), before)
	}
}
