package fakedev

import (
	"slices"
	"sync"
	"sync/atomic"

	"vionet/mbuf"
)

// mapped is the memory that the device can reach.
type mapped struct {
	change  sync.Mutex // one change at a time
	regions atomic.Pointer[[]mbuf.Region]
	stop    func() // ends the subscription to changes; nil before Map
}

// Map implements driver.Transport. Memory that comes and goes later is known at
// once.
func (d *Device) Map(mem *mbuf.Memory) error {
	m := &d.memory
	m.change.Lock()
	defer m.change.Unlock()
	m.stop = mem.OnGrow(m.grow, m.shrink)
	m.add(mem.Regions())
	return nil
}

func (m *mapped) grow(added []mbuf.Region) error {
	m.change.Lock()
	defer m.change.Unlock()
	m.add(added)
	return nil
}

func (m *mapped) shrink(gone []mbuf.Region) error {
	m.change.Lock()
	defer m.change.Unlock()
	rest := slices.DeleteFunc(slices.Clone(m.all()), func(r mbuf.Region) bool {
		return slices.ContainsFunc(gone, func(g mbuf.Region) bool { return g.IOVA == r.IOVA })
	})
	m.regions.Store(&rest)
	return nil
}

func (m *mapped) add(regions []mbuf.Region) {
	all := slices.Concat(m.all(), regions)
	m.regions.Store(&all)
}

func (m *mapped) all() []mbuf.Region {
	if p := m.regions.Load(); p != nil {
		return *p
	}
	return nil
}

// close ends the subscription.
func (m *mapped) close() {
	m.change.Lock()
	defer m.change.Unlock()
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

// bytes gives the memory at a device address, or nil when the driver has not
// mapped it.
func (m *mapped) bytes(addr uint64, n uint32) []byte {
	for _, r := range m.all() {
		if off := addr - r.IOVA; addr >= r.IOVA && off < uint64(len(r.Bytes)) && uint64(n) <= uint64(len(r.Bytes))-off {
			return r.Bytes[off : off+uint64(n)]
		}
	}
	return nil
}
