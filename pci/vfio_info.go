package pci

import (
	"encoding/binary"

	"vionet/mbuf"
)

// vfioCapability finds the capability id in a chain that starts at offset
// first of a structure, and gives the bytes after its header of 8, to the end
// of the structure; nil when there is none.
func vfioCapability(info []byte, first uint32, id uint16) []byte {
	const header = 8
	// A chain that goes on beyond this many runs in circles.
	for at, steps := uint64(first), 0; at != 0 && steps < maxCapabilities; steps++ {
		if at+header > uint64(len(info)) {
			return nil
		}
		if binary.LittleEndian.Uint16(info[at:]) == id {
			return info[at+header:]
		}
		at = uint64(binary.LittleEndian.Uint32(info[at+4:]))
	}
	return nil
}

// vfioPairs reads a list of pairs of 64-bit numbers: count, 4 bytes of
// padding, the pairs.
func vfioPairs(b []byte) [][2]uint64 {
	if len(b) < 8 {
		return nil
	}
	count, b := binary.LittleEndian.Uint32(b), b[8:]
	var pairs [][2]uint64
	for ; count > 0 && len(b) >= 16; count, b = count-1, b[16:] {
		pairs = append(pairs, [2]uint64{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])})
	}
	return pairs
}

// fallbackRanges serves a kernel that does not tell the usable addresses: 39
// bits, the least that is common, without the window of message-signalled
// interrupts.
var fallbackRanges = []mbuf.AddrRange{
	{First: 0, Last: 0xfedfffff},
	{First: 0xfef00000, Last: 1<<39 - 1},
}

// iovaRanges reads the usable device addresses out of a struct
// vfio_iommu_type1_info.
func iovaRanges(info []byte) []mbuf.AddrRange {
	if len(info) < vfioIOMMUInfoSize || binary.LittleEndian.Uint32(info[4:])&vfioIOMMUCaps == 0 {
		return fallbackRanges
	}
	list := vfioCapability(info, binary.LittleEndian.Uint32(info[16:]), vfioCapIOVARanges)
	if list == nil {
		return fallbackRanges
	}
	var ranges []mbuf.AddrRange
	for _, p := range vfioPairs(list) {
		if p[0] <= p[1] {
			ranges = append(ranges, mbuf.AddrRange{First: p[0], Last: p[1]})
		}
	}
	return ranges
}

// vfioRegion is a BAR or the configuration space behind a device's file
// descriptor.
type vfioRegion struct {
	size, offset uint64
	mappable     [][2]uint64 // offset and size of each area that mmap takes
}

// parseRegion reads a struct vfio_region_info.
func parseRegion(info []byte) vfioRegion {
	if len(info) < vfioRegionInfoSize {
		return vfioRegion{}
	}
	flags := binary.LittleEndian.Uint32(info[4:])
	r := vfioRegion{
		size:   binary.LittleEndian.Uint64(info[16:]),
		offset: binary.LittleEndian.Uint64(info[24:]),
	}
	if flags&vfioRegionMmap == 0 {
		return r
	}
	r.mappable = [][2]uint64{{0, r.size}}
	if flags&vfioRegionCaps != 0 {
		// Areas are listed where a part, the MSI-X table, must be left out.
		if list := vfioCapability(info, binary.LittleEndian.Uint32(info[12:]), vfioCapSparseMmap); list != nil {
			r.mappable = vfioPairs(list)
		}
	}
	return r
}

// canMap reports whether length bytes at offset lie in one mappable area.
func (r vfioRegion) canMap(offset, length uint64) bool {
	for _, area := range r.mappable {
		if offset >= area[0] && offset-area[0] <= area[1] && length <= area[1]-(offset-area[0]) {
			return true
		}
	}
	return false
}
