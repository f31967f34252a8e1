package sender

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// xdpRing is a ring that the kernel shares with the socket. This end is the
// producer of the transmit ring and the consumer of the completion ring.
type xdpRing struct {
	memory             []byte
	producer, consumer *uint32
	descs              []unix.XDPDesc // of the transmit ring
}

// register gives the chunks to the socket.
func (s *xdpSocket) register() error {
	r := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&s.memory[0]))), Len: chunks * chunkSize, Size: chunkSize}
	// The kernel reads the structure, which lives until the call is over.
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(s.fd), unix.SOL_XDP, unix.XDP_UMEM_REG, uintptr(unsafe.Pointer(&r)), unsafe.Sizeof(r), 0)
	if errno != 0 {
		return fmt.Errorf("register %d MiB with the AF_XDP socket: %w", chunks*chunkSize>>20, errno)
	}
	return nil
}

// mapRings maps the two rings that are used.
func (s *xdpSocket) mapRings() error {
	var o unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(o))
	// The kernel writes no more than size bytes into the structure.
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS, uintptr(unsafe.Pointer(&o)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return fmt.Errorf("offsets of the AF_XDP rings: %w", errno)
	}
	var err error
	if s.tx, err = s.mapRing(unix.XDP_PGOFF_TX_RING, o.Tx, unsafe.Sizeof(unix.XDPDesc{})); err != nil {
		return err
	}
	// The entries lie behind the offset, ringSize of them, in memory that was mapped for them.
	s.tx.descs = unsafe.Slice((*unix.XDPDesc)(unsafe.Pointer(&s.tx.memory[o.Tx.Desc])), ringSize)
	s.completed, err = s.mapRing(unix.XDP_UMEM_PGOFF_COMPLETION_RING, o.Cr, unsafe.Sizeof(uint64(0)))
	return err
}

func (s *xdpSocket) mapRing(at int64, o unix.XDPRingOffset, entry uintptr) (xdpRing, error) {
	m, err := unix.Mmap(s.fd, at, int(o.Desc)+ringSize*int(entry), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return xdpRing{}, fmt.Errorf("map an AF_XDP ring: %w", err)
	}
	// Both indices are aligned words in front of the entries.
	return xdpRing{
		memory:   m,
		producer: (*uint32)(unsafe.Pointer(&m[o.Producer])),
		consumer: (*uint32)(unsafe.Pointer(&m[o.Consumer])),
	}, nil
}

// take takes all entries, whose content nobody asks for, and gives their number.
func (r *xdpRing) take() uint32 {
	produced := atomic.LoadUint32(r.producer)
	n := produced - *r.consumer
	atomic.StoreUint32(r.consumer, produced)
	return n
}

// room is the number of entries that can be set.
func (r *xdpRing) room() uint32 { return ringSize - (*r.producer - atomic.LoadUint32(r.consumer)) }

// set writes the entry that is i behind the last one submitted.
func (r *xdpRing) set(i uint32, addr uint64, size uint32) {
	r.descs[(*r.producer+i)%ringSize] = unix.XDPDesc{Addr: addr, Len: size}
}

// submit gives n entries to the kernel.
func (r *xdpRing) submit(n uint32) { atomic.StoreUint32(r.producer, *r.producer+n) }
