package pci

import (
	"encoding/binary"
	"fmt"
)

// vfioCalls are the calls of VFIO's ioctl interface that are used here, so
// that tests can stand in for the kernel. File descriptors are the caller's.
type vfioCalls interface {
	apiVersion(container int) (int, error)
	hasExtension(container, extension int) bool
	setIOMMU(container, kind int) error
	// iommuInfo gives a struct vfio_iommu_type1_info with its capabilities.
	iommuInfo(container int) ([]byte, error)
	mapDMA(container int, mem []byte, iova uint64) error
	unmapDMA(container int, iova, size uint64) error
	groupFlags(group int) (uint32, error)
	setContainer(group, container int) error
	deviceFD(group int, name string) (int, error)
	// regionInfo gives a struct vfio_region_info with its capabilities.
	regionInfo(device, index int) ([]byte, error)
	resetDevice(device int) error
	// irqCount gives the number of interrupts of a kind, 0 for none.
	irqCount(device, index int) (int, error)
	// setIRQs does what the flags say with interrupts of a kind, from start
	// on; fds are their eventfds, -1 for none. A count that is positive says
	// how many of more could be had, and nothing was done.
	setIRQs(device, index int, flags uint32, start int, fds []int) (count int, err error)
}

// Requests and constants of linux/vfio.h. The requests are numbered from 100
// within type ';' and carry no direction or size.
const (
	vfioBase           = ';'<<8 + 100
	vfioGetAPIVersion  = vfioBase + 0
	vfioCheckExtension = vfioBase + 1
	vfioSetIOMMU       = vfioBase + 2
	vfioGroupStatus    = vfioBase + 3
	vfioSetContainer   = vfioBase + 4
	vfioGetDeviceFD    = vfioBase + 6
	vfioGetRegionInfo  = vfioBase + 8
	vfioGetIRQInfo     = vfioBase + 9
	vfioSetIRQs        = vfioBase + 10
	vfioDeviceReset    = vfioBase + 11
	vfioIOMMUInfo      = vfioBase + 12
	vfioMapDMA         = vfioBase + 13
	vfioUnmapDMA       = vfioBase + 14

	vfioAPIVersion  = 0
	vfioType1       = 1
	vfioType1v2     = 3
	vfioNoIOMMU     = 8
	vfioConfigIndex = 7 // region of the configuration space; BARs are 0 to 5

	vfioINTx    = 0 // kinds of interrupts
	vfioMSIX    = 2
	vfioRequest = 4 // the kernel wants the function back

	vfioIRQNone    = 1 << 0 // no data
	vfioIRQEventFD = 1 << 2 // data are eventfds
	vfioIRQUnmask  = 1 << 4
	vfioIRQTrigger = 1 << 5

	vfioGroupViable    = 1 << 0
	vfioMapRead        = 1 << 0
	vfioMapWrite       = 1 << 1
	vfioRegionMmap     = 1 << 2
	vfioRegionCaps     = 1 << 3
	vfioIOMMUCaps      = 1 << 1
	vfioCapSparseMmap  = 1
	vfioCapIOVARanges  = 1
	vfioIOMMUInfoSize  = 24
	vfioRegionInfoSize = 32
)

// kernelVFIO makes the calls.
type kernelVFIO struct{}

func (kernelVFIO) apiVersion(container int) (int, error) {
	return ioctl(container, vfioGetAPIVersion, 0)
}

func (kernelVFIO) hasExtension(container, extension int) bool {
	r, err := ioctl(container, vfioCheckExtension, uintptr(extension))
	return err == nil && r != 0
}

func (kernelVFIO) setIOMMU(container, kind int) error {
	_, err := ioctl(container, vfioSetIOMMU, uintptr(kind))
	return err
}

func (kernelVFIO) iommuInfo(container int) ([]byte, error) {
	return vfioInfo(container, vfioIOMMUInfo, make([]byte, vfioIOMMUInfoSize))
}

func (kernelVFIO) mapDMA(container int, mem []byte, iova uint64) error {
	b := binary.LittleEndian.AppendUint32(nil, 32)
	b = binary.LittleEndian.AppendUint32(b, vfioMapRead|vfioMapWrite)
	b = binary.LittleEndian.AppendUint64(b, addressOf(mem))
	b = binary.LittleEndian.AppendUint64(b, iova)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(mem)))
	_, err := ioctlBytes(container, vfioMapDMA, b)
	return err
}

func (kernelVFIO) unmapDMA(container int, iova, size uint64) error {
	b := binary.LittleEndian.AppendUint32(nil, 24)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, iova)
	b = binary.LittleEndian.AppendUint64(b, size)
	_, err := ioctlBytes(container, vfioUnmapDMA, b)
	return err
}

func (kernelVFIO) groupFlags(group int) (uint32, error) {
	b := binary.LittleEndian.AppendUint32(nil, 8)
	b = binary.LittleEndian.AppendUint32(b, 0)
	_, err := ioctlBytes(group, vfioGroupStatus, b)
	return binary.LittleEndian.Uint32(b[4:]), err
}

func (kernelVFIO) setContainer(group, container int) error {
	_, err := ioctlBytes(group, vfioSetContainer, binary.LittleEndian.AppendUint32(nil, uint32(container)))
	return err
}

func (kernelVFIO) deviceFD(group int, name string) (int, error) {
	fd, err := ioctlBytes(group, vfioGetDeviceFD, append([]byte(name), 0))
	if err != nil {
		return -1, err
	}
	return fd, nil
}

func (kernelVFIO) regionInfo(device, index int) ([]byte, error) {
	b := make([]byte, vfioRegionInfoSize)
	binary.LittleEndian.PutUint32(b[8:], uint32(index))
	return vfioInfo(device, vfioGetRegionInfo, b)
}

func (kernelVFIO) resetDevice(device int) error {
	_, err := ioctl(device, vfioDeviceReset, 0)
	return err
}

func (kernelVFIO) irqCount(device, index int) (int, error) {
	b := binary.LittleEndian.AppendUint32(nil, 16)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(index))
	b = binary.LittleEndian.AppendUint32(b, 0)
	_, err := ioctlBytes(device, vfioGetIRQInfo, b)
	return int(binary.LittleEndian.Uint32(b[12:])), err
}

func (kernelVFIO) setIRQs(device, index int, flags uint32, start int, fds []int) (int, error) {
	count := len(fds)
	if flags&vfioIRQNone != 0 {
		count = 1 // of what has no data
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(20+4*len(fds)))
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(index))
	b = binary.LittleEndian.AppendUint32(b, uint32(start))
	b = binary.LittleEndian.AppendUint32(b, uint32(count))
	for _, fd := range fds {
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(fd)))
	}
	return ioctlBytes(device, vfioSetIRQs, b)
}

// maxInfo bounds what a kernel may ask room for.
const maxInfo = 1 << 20

// vfioInfo fills a structure that starts with argsz and may be followed by
// capabilities: the kernel tells how much room it wants, and gets it.
func vfioInfo(fd int, request uintptr, b []byte) ([]byte, error) {
	for {
		binary.LittleEndian.PutUint32(b, uint32(len(b)))
		if _, err := ioctlBytes(fd, request, b); err != nil {
			return nil, err
		}
		want := int(binary.LittleEndian.Uint32(b))
		if want <= len(b) {
			return b, nil
		}
		if want > maxInfo {
			return nil, fmt.Errorf("the kernel wants %d bytes for a VFIO structure", want)
		}
		b = append(b, make([]byte, want-len(b))...)
	}
}
