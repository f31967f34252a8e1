package ring

import "fmt"

// MaxSize is the largest number of descriptors of a virtqueue (virtio 1.2,
// sections 2.7 and 2.8).
const MaxSize = 32768

// Flags of a descriptor (section 2.7.5).
const (
	DescNext     uint16 = 1 // the chain goes on in Next
	DescWrite    uint16 = 2 // the device writes the buffer; it reads it otherwise
	DescIndirect uint16 = 4 // the buffer is a table of descriptors
)

// Flags of the available and the used ring.
const (
	AvailNoInterrupt uint16 = 1
	UsedNoNotify     uint16 = 1
)

// Desc is a descriptor of a split virtqueue (section 2.7.5), as it lies in
// memory. Both sides are little-endian machines; big-endian ones are not
// supported.
type Desc struct {
	Addr  uint64 // device address of the buffer
	Len   uint32 // bytes
	Flags uint16
	Next  uint16
}

// UsedElem is an entry of the used ring (section 2.7.8).
type UsedElem struct {
	ID  uint32 // head of the chain that was used
	Len uint32 // bytes that the device wrote
}

// Sizes in bytes of the pieces of a split virtqueue.
const (
	DescSize     = 16
	usedElemSize = 8
	// UsedAlign is the alignment of the used ring that a legacy device wants
	// within one block (section 2.7.2); it serves every device.
	UsedAlign = 4096
)

// SplitLayout says where the three areas of a split virtqueue of one size
// stand within one block of memory, whose start must be aligned to UsedAlign.
// Offsets and lengths are in bytes.
//
// The available and the used area end with the event words of EVENT_IDX and
// are rounded up to 4 bytes, so that every shared 16-bit word lies in a
// 32-bit word of its own.
type SplitLayout struct {
	Size               int // descriptors
	AvailOff, AvailLen int
	UsedOff, UsedLen   int
	Total              int
}

// DescLen is the length of the descriptor area, which starts at 0.
func (l SplitLayout) DescLen() int { return l.Size * DescSize }

// NewSplitLayout lays a split virtqueue of size descriptors out.
func NewSplitLayout(size int) (SplitLayout, error) {
	if size < 1 || size > MaxSize || size&(size-1) != 0 {
		return SplitLayout{}, fmt.Errorf("ring: split virtqueue of %d descriptors: the size must be a power of two, 1 to %d", size, MaxSize)
	}
	l := SplitLayout{Size: size}
	l.AvailOff = l.DescLen()
	l.AvailLen = roundUp(4+2*size+2, 4)
	l.UsedOff = roundUp(l.AvailOff+l.AvailLen, UsedAlign)
	l.UsedLen = roundUp(4+usedElemSize*size+2, 4)
	l.Total = l.UsedOff + l.UsedLen
	return l, nil
}

func roundUp(n, align int) int { return (n + align - 1) / align * align }
