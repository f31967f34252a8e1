package pci

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// registers is a window of device registers. Each method makes exactly one
// access of exactly its width; offsets are in bytes, aligned to the width and
// within size, which the caller has checked. A device that is gone reads as
// all ones, as on the bus.
type registers interface {
	size() int
	read8(offset int) uint8
	read16(offset int) uint16
	read32(offset int) uint32
	write8(offset int, v uint8)
	write16(offset int, v uint16)
	write32(offset int, v uint32)
	// close ends the use of the window.
	close() error
}

// mappedRegisters is a window of a BAR mapped into this process.
type mappedRegisters struct {
	mapping []byte // whole pages
	window  []byte // the part that was asked for
}

// mapRegisters maps length bytes at offset of the file fd.
func mapRegisters(fd int, offset int64, length int) (*mappedRegisters, error) {
	page := int64(unix.Getpagesize())
	skip := int(offset % page)
	mapping, err := unix.Mmap(fd, offset-int64(skip), skip+length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes of registers: %w", length, err)
	}
	return &mappedRegisters{mapping: mapping, window: mapping[skip : skip+length]}, nil
}

func (r *mappedRegisters) size() int                    { return len(r.window) }
func (r *mappedRegisters) read8(offset int) uint8       { return load8(r.at(offset, 1)) }
func (r *mappedRegisters) read16(offset int) uint16     { return load16(r.at(offset, 2)) }
func (r *mappedRegisters) read32(offset int) uint32     { return load32(r.at(offset, 4)) }
func (r *mappedRegisters) write8(offset int, v uint8)   { store8(r.at(offset, 1), v) }
func (r *mappedRegisters) write16(offset int, v uint16) { store16(r.at(offset, 2), v) }
func (r *mappedRegisters) write32(offset int, v uint32) { store32(r.at(offset, 4), v) }

// at gives the first byte of a register that lies within the window.
func (r *mappedRegisters) at(offset, width int) *byte { return &r.window[offset : offset+width][0] }

func (r *mappedRegisters) close() error {
	if r.mapping == nil {
		return nil
	}
	err := unix.Munmap(r.mapping)
	r.mapping, r.window = nil, nil
	return err
}

// fileRegisters is a window that can't be mapped, such as I/O ports or one that
// shares a page with the MSI-X table, reached by one system call an access. The kernel
// makes accesses of the width of the buffer.
type fileRegisters struct {
	fd     int // belongs to the access
	offset int64
	length int
}

func (r *fileRegisters) size() int    { return r.length }
func (r *fileRegisters) close() error { return nil }

func (r *fileRegisters) read8(offset int) uint8 {
	var b [1]byte
	r.read(b[:], offset)
	return b[0]
}

func (r *fileRegisters) read16(offset int) uint16 {
	var b [2]byte
	r.read(b[:], offset)
	return binary.LittleEndian.Uint16(b[:])
}

func (r *fileRegisters) read32(offset int) uint32 {
	var b [4]byte
	r.read(b[:], offset)
	return binary.LittleEndian.Uint32(b[:])
}

func (r *fileRegisters) read(b []byte, offset int) {
	if n, err := unix.Pread(r.fd, b, r.offset+int64(offset)); err != nil || n != len(b) {
		for i := range b {
			b[i] = 0xff
		}
	}
}

func (r *fileRegisters) write8(offset int, v uint8) {
	b := [1]byte{v}
	r.write(b[:], offset)
}

func (r *fileRegisters) write16(offset int, v uint16) {
	var b [2]byte
	binary.LittleEndian.PutUint16(b[:], v)
	r.write(b[:], offset)
}

func (r *fileRegisters) write32(offset int, v uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	r.write(b[:], offset)
}

// write loses its error as a bus does: what matters is read back.
func (r *fileRegisters) write(b []byte, offset int) {
	_, _ = unix.Pwrite(r.fd, b, r.offset+int64(offset))
}
