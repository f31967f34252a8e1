package mbuf

import "fmt"

// assign gives new memory its device addresses: one region, or with physical
// addresses as many as it takes. Those of the regions there are stay theirs.
func (cfg MemoryConfig) assign(whole Region, taken []Region) ([]Region, error) {
	switch cfg.IOVA {
	case IOVAPhysical:
		return physicalRegions(whole)
	case IOVARanges:
		ranges := cfg.Ranges
		for _, r := range taken {
			ranges = without(ranges, AddrRange{r.IOVA, r.end() - 1})
		}
		iova, err := pickIOVA(ranges, uint64(len(whole.Bytes)), uint64(whole.PageSize))
		if err != nil {
			return nil, err
		}
		whole.IOVA = iova
	default:
		whole.IOVA = uint64(whole.Addr())
	}
	return []Region{whole}, nil
}

// without takes the addresses of hole out of ranges.
func without(ranges []AddrRange, hole AddrRange) []AddrRange {
	var rest []AddrRange
	for _, r := range ranges {
		if hole.Last < r.First || r.Last < hole.First {
			rest = append(rest, r)
			continue
		}
		if r.First < hole.First {
			rest = append(rest, AddrRange{r.First, hole.First - 1})
		}
		if hole.Last < r.Last {
			rest = append(rest, AddrRange{hole.Last + 1, r.Last})
		}
	}
	return rest
}

// lowIOVA is where the search for device addresses starts: above the 32-bit
// addresses, where the windows for interrupts and memory-mapped registers
// are. Only an IOMMU too narrow for that gets a lower address.
const lowIOVA = 4 << 30

// pickIOVA finds size bytes, aligned to align, within one of the ranges.
func pickIOVA(ranges []AddrRange, size, align uint64) (uint64, error) {
	for _, floor := range []uint64{lowIOVA, align} {
		for _, r := range ranges {
			first := max(r.First, floor)
			first = (first + align - 1) &^ (align - 1)
			if first >= r.First && first <= r.Last && r.Last-first >= size-1 {
				return first, nil
			}
		}
	}
	return 0, fmt.Errorf("no %d contiguous bytes in the device addresses that the IOMMU can translate (%d ranges): lower -m", size, len(ranges))
}
