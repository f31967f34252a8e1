package pci

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// regAccess is one access to a register.
type regAccess struct {
	Op            string // "r" or "w"
	Offset, Width int
	Value         uint32
}

// fakeRegisters is a register file that logs every access. onRead and onWrite
// make it behave like a device; both may be nil.
type fakeRegisters struct {
	bytes   []byte
	log     []regAccess
	onRead  func(offset, width int) // before the value is taken
	onWrite func(offset int, v uint32)
	closed  int
}

func (r *fakeRegisters) size() int { return len(r.bytes) }

func (r *fakeRegisters) close() error { r.closed++; return nil }

func (r *fakeRegisters) read(offset, width int) uint32 {
	if offset%width != 0 {
		panic(fmt.Sprintf("read of %d bytes at %d", width, offset))
	}
	if r.onRead != nil {
		r.onRead(offset, width)
	}
	var b [4]byte
	copy(b[:], r.bytes[offset:offset+width])
	v := binary.LittleEndian.Uint32(b[:])
	r.log = append(r.log, regAccess{"r", offset, width, v})
	return v
}

func (r *fakeRegisters) write(offset, width int, v uint32) {
	if offset%width != 0 {
		panic(fmt.Sprintf("write of %d bytes at %d", width, offset))
	}
	r.log = append(r.log, regAccess{"w", offset, width, v})
	copy(r.bytes[offset:offset+width], binary.LittleEndian.AppendUint32(nil, v))
	if r.onWrite != nil {
		r.onWrite(offset, v)
	}
}

func (r *fakeRegisters) read8(offset int) uint8       { return uint8(r.read(offset, 1)) }
func (r *fakeRegisters) read16(offset int) uint16     { return uint16(r.read(offset, 2)) }
func (r *fakeRegisters) read32(offset int) uint32     { return r.read(offset, 4) }
func (r *fakeRegisters) write8(offset int, v uint8)   { r.write(offset, 1, uint32(v)) }
func (r *fakeRegisters) write16(offset int, v uint16) { r.write(offset, 2, uint32(v)) }
func (r *fakeRegisters) write32(offset int, v uint32) { r.write(offset, 4, v) }
func (r *fakeRegisters) set16(offset int, v uint16) {
	binary.LittleEndian.PutUint16(r.bytes[offset:], v)
}
func (r *fakeRegisters) set32(offset int, v uint32) {
	binary.LittleEndian.PutUint32(r.bytes[offset:], v)
}
func (r *fakeRegisters) writes() (writes []regAccess) {
	for _, a := range r.log {
		if a.Op == "w" {
			writes = append(writes, a)
		}
	}
	return writes
}

// newFakeModern is a device with two queues of 256 descriptors that offers
// the features given.
func newFakeModern(offered virtio.Features) (m *modern, common, notify, device *fakeRegisters) {
	common = &fakeRegisters{bytes: make([]byte, endQueueReset)}
	notify = &fakeRegisters{bytes: make([]byte, 64)}
	device = &fakeRegisters{bytes: make([]byte, 64)}
	common.set16(regNumQueues, 2)
	common.onRead = func(offset, width int) {
		switch offset {
		case regDeviceFeature:
			word := binary.LittleEndian.Uint32(common.bytes[regDeviceFeatureSelect:])
			common.set32(regDeviceFeature, uint32(offered>>(32*word)))
		case regQueueSize:
			common.set16(regQueueSize, 256)
		case regQueueNotifyOff:
			common.set16(regQueueNotifyOff, binary.LittleEndian.Uint16(common.bytes[regQueueSelect:]))
		}
	}
	isr := &fakeRegisters{bytes: make([]byte, 1)}
	return &modern{common: common, notify: notify, isr: isr, device: device, notifyMultiplier: 4}, common, notify, device
}

// fakeAccess gives the windows of a fake device and notes what is asked.
type fakeAccess struct {
	space    []byte
	windows  map[uint32]*fakeRegisters // by offset in BAR 4
	failAt   uint32                    // window at this offset can't be opened
	command  uint16
	mapErr   error
	mapped   []mbuf.Region
	closed   int
	commands []uint16

	bars    [numBARs]uint64
	vectors int         // MSI-X vectors; enabling them sets the bit in space
	routes  map[int]int // eventfds by vector
	line    *fakeLine   // nil for none
	removal int         // eventfd, -1 for none
	mute    bool        // removals are not announced
}

// fakeLine is an interrupt line that fires when the test says so.
type fakeLine struct {
	*port.EventFD
	shared  uint16
	lost    bool // the first interrupt is the last
	unmasks atomic.Int64
}

func (l *fakeLine) wait() error {
	err := l.Wait(context.Background())
	if err == nil && l.lost {
		err = ErrGone
	}
	return err
}

func (l *fakeLine) unmask() error  { l.unmasks.Add(1); return nil }
func (l *fakeLine) vector() uint16 { return l.shared }
func (l *fakeLine) close() error   { return l.Close() }

func newFakeLine(t *testing.T) *fakeLine {
	e, err := port.NewEventFD()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return &fakeLine{EventFD: e, shared: noVector}
}

func (a *fakeAccess) enableVectors(want int) (int, error) {
	if at := findMSIX(a.space); at != 0 && a.vectors > 0 {
		a.space[at+msixControl+1] |= msixEnable >> 8
	}
	return min(a.vectors, want), nil
}

func (a *fakeAccess) route(vector, eventfd int) error {
	a.routes[vector] = eventfd
	return nil
}

func (a *fakeAccess) openLine() (interruptLine, error) {
	if a.line == nil {
		return nil, port.ErrNotSupported
	}
	return a.line, nil
}

func (a *fakeAccess) announceRemoval(eventfd int) error {
	if a.mute {
		return port.ErrNotSupported
	}
	a.removal = eventfd
	return nil
}

func (a *fakeAccess) isolated() bool { return true }

func (a *fakeAccess) config16(at int) (uint16, error) {
	return binary.LittleEndian.Uint16(a.space[at:]), nil
}

func (a *fakeAccess) config() ([]byte, error) { return a.space, nil }

func (a *fakeAccess) barSizes() [numBARs]uint64 { return a.bars }

func (a *fakeAccess) window(s Structure) (registers, error) {
	if a.failAt != 0 && s.Offset == a.failAt {
		return nil, unix.EAGAIN
	}
	return a.windows[s.Offset], nil
}

func (a *fakeAccess) setCommand(set, clear uint16) error {
	a.command = a.command&^clear | set
	a.commands = append(a.commands, a.command)
	return nil
}

func (a *fakeAccess) translated() (port.Addressing, error) {
	return port.Addressing{Mode: mbuf.IOVARanges, Ranges: []mbuf.AddrRange{{First: 1 << 32, Last: 1<<33 - 1}}}, nil
}

func (a *fakeAccess) mapDMA(regions []mbuf.Region) error {
	if a.mapErr != nil {
		return a.mapErr
	}
	a.mapped = append(a.mapped, regions...)
	return nil
}

func (a *fakeAccess) unmapDMA(regions []mbuf.Region) error {
	a.mapped = slices.DeleteFunc(a.mapped, func(m mbuf.Region) bool {
		return slices.ContainsFunc(regions, func(r mbuf.Region) bool { return r.IOVA == m.IOVA })
	})
	return nil
}

func (a *fakeAccess) close() error { a.closed++; a.mapped = nil; return nil }

// newFakeAccess puts a fake device where goodCaps says.
func newFakeAccess(offered virtio.Features) (a *fakeAccess, common, notify, device *fakeRegisters) {
	m, common, notify, device := newFakeModern(offered)
	a = &fakeAccess{
		space:   testConfig(goodCaps()...),
		windows: map[uint32]*fakeRegisters{0: common, 0x1000: m.isr.(*fakeRegisters), 0x2000: device, 0x3000: notify},
		bars:    testBARs,
		routes:  map[int]int{},
		removal: -1,
	}
	return a, common, notify, device
}

// fakeVFIO stands in for VFIO in the kernel: a device is a memory file with
// its configuration space at 1 MiB and BAR 4 at 0.
type fakeVFIO struct {
	tb      testing.TB
	calls   []string
	failAt  int // the call of this number, from 1 on, fails with err
	err     error
	hasV2   bool
	iommu   []byte
	flags   uint32
	mapped  map[uint64]uint64
	resets  int
	regions map[int][]byte
	irqs    map[int]int // number of interrupts by kind
	irqSets []irqSet
	fewer   int // the vectors that the kernel has, 0 for enough
}

// irqSet is one call of setIRQs.
type irqSet struct {
	Index int
	Flags uint32
	Start int
	FDs   []int
}

const (
	fakeConfigAt = 1 << 20
	fakeBARSize  = 0x4000
)

func newFakeVFIO(tb testing.TB) *fakeVFIO {
	return &fakeVFIO{
		tb: tb, hasV2: true, flags: vfioGroupViable, mapped: map[uint64]uint64{},
		iommu: testIOMMUInfo([2]uint64{0, 0xfedfffff}, [2]uint64{0xfef00000, 1<<39 - 1}),
		regions: map[int][]byte{
			4:               testRegionInfo(vfioRegionMmap, fakeBARSize, 0),
			vfioConfigIndex: testRegionInfo(0, 256, fakeConfigAt),
		},
	}
}

// call notes a call down and says whether it is the one that fails.
func (v *fakeVFIO) call(name string) error {
	v.calls = append(v.calls, name)
	if len(v.calls) == v.failAt {
		return v.err
	}
	return nil
}

func (v *fakeVFIO) apiVersion(int) (int, error) { return vfioAPIVersion, v.call("version") }

func (v *fakeVFIO) hasExtension(_, extension int) bool { return v.hasV2 && extension == vfioType1v2 }

func (v *fakeVFIO) setIOMMU(_, kind int) error { return v.call(fmt.Sprintf("iommu %d", kind)) }

func (v *fakeVFIO) iommuInfo(int) ([]byte, error) { return v.iommu, nil }

func (v *fakeVFIO) mapDMA(_ int, mem []byte, iova uint64) error {
	if err := v.call("map"); err != nil {
		return err
	}
	if _, ok := v.mapped[iova]; ok {
		return unix.EEXIST
	}
	v.mapped[iova] = uint64(len(mem))
	return nil
}

func (v *fakeVFIO) unmapDMA(_ int, iova, size uint64) error {
	if v.mapped[iova] != size {
		return unix.EINVAL
	}
	delete(v.mapped, iova)
	return nil
}

func (v *fakeVFIO) groupFlags(int) (uint32, error) { return v.flags, v.call("status") }

func (v *fakeVFIO) setContainer(int, int) error { return v.call("container") }

func (v *fakeVFIO) deviceFD(_ int, name string) (int, error) {
	if err := v.call("device " + name); err != nil {
		return -1, err
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		v.tb.Fatal(err)
	}
	if err := unix.Ftruncate(fd, fakeConfigAt+256); err != nil {
		v.tb.Fatal(err)
	}
	if _, err := unix.Pwrite(fd, testConfig(goodCaps()...), fakeConfigAt); err != nil {
		v.tb.Fatal(err)
	}
	return fd, nil
}

func (v *fakeVFIO) regionInfo(_, index int) ([]byte, error) {
	if err := v.call(fmt.Sprintf("region %d", index)); err != nil {
		return nil, err
	}
	if info := v.regions[index]; info != nil {
		return info, nil
	}
	return testRegionInfo(0, 0, 0), nil
}

func (v *fakeVFIO) resetDevice(int) error {
	v.resets++
	return v.call("reset")
}

func (v *fakeVFIO) irqCount(_, index int) (int, error) { return v.irqs[index], nil }

func (v *fakeVFIO) setIRQs(_, index int, flags uint32, start int, fds []int) (int, error) {
	if len(fds) > v.fewer && v.fewer > 0 {
		return v.fewer, nil
	}
	v.irqSets = append(v.irqSets, irqSet{index, flags, start, fds})
	return 0, nil
}

// testRegionInfo is a struct vfio_region_info, with a list of mappable areas
// when there are any.
func testRegionInfo(flags uint32, size, offset uint64, areas ...[2]uint64) []byte {
	b := make([]byte, vfioRegionInfoSize)
	if areas != nil {
		flags |= vfioRegionCaps
		binary.LittleEndian.PutUint32(b[12:], vfioRegionInfoSize)
		b = append(b, testCapability(vfioCapSparseMmap, 0, areas...)...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint32(b[4:], flags)
	binary.LittleEndian.PutUint64(b[16:], size)
	binary.LittleEndian.PutUint64(b[24:], offset)
	return b
}

// testIOMMUInfo is a struct vfio_iommu_type1_info with a capability that is
// not of interest and, when there are any, the usable ranges.
func testIOMMUInfo(ranges ...[2]uint64) []byte {
	b := make([]byte, vfioIOMMUInfoSize)
	binary.LittleEndian.PutUint32(b[4:], vfioIOMMUCaps|1)
	binary.LittleEndian.PutUint32(b[16:], vfioIOMMUInfoSize)
	next := uint32(0)
	if ranges != nil {
		next = vfioIOMMUInfoSize + 16
	}
	b = append(b, testCapability(3, next)...)
	if ranges != nil {
		b = append(b, testCapability(vfioCapIOVARanges, 0, ranges...)...)
	}
	return b
}

func testCapability(id uint16, next uint32, pairs ...[2]uint64) []byte {
	b := binary.LittleEndian.AppendUint16(nil, id)
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint32(b, next)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(pairs)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, p := range pairs {
		b = binary.LittleEndian.AppendUint64(b, p[0])
		b = binary.LittleEndian.AppendUint64(b, p[1])
	}
	return b
}

// openFDs lists what this process has open.
func openFDs(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if errors.Is(err, os.ErrNotExist) {
			continue // the one that read the directory
		}
		open = append(open, e.Name()+" "+target)
	}
	return open
}
