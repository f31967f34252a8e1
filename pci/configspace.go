package pci

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"

	"golang.org/x/sys/unix"
)

// Fields of the header of a PCI function's configuration space.
const (
	cfgCommand      = 0x04
	cfgStatus       = 0x06
	cfgCapabilities = 0x34
	cfgHeaderSize   = 0x40
	cfgSize         = 0x100

	commandIO        = 1 << 0
	commandMemory    = 1 << 1
	commandBusMaster = 1 << 2
	// Functions share interrupt lines. One that pulls a line while nobody listens
	// to it has the kernel switch the line off for those others who do.
	commandINTxDisable = 1 << 10
	statusCapList      = 1 << 4
)

// Fields of the MSI-X capability.
const (
	capMSIX     = 0x11 // its id
	msixControl = 2
	msixEnable  = 1 << 15
)

// configSpace is the configuration space of a function in a file, whose
// descriptor belongs to the access.
type configSpace struct {
	fd       int
	at, size int64 // bytes of the file
}

// config reads it, as far as it can be read: without privileges that may be
// the header alone.
func (s configSpace) config() ([]byte, error) {
	b := make([]byte, min(s.size, cfgSize))
	n, err := unix.Pread(s.fd, b, s.at)
	if err != nil {
		return nil, fmt.Errorf("read the configuration space: %w", err)
	}
	return b[:n], nil
}

// config16 reads two bytes of it.
func (s configSpace) config16(at int) (uint16, error) {
	var b [2]byte
	if n, err := unix.Pread(s.fd, b[:], s.at+int64(at)); err != nil || n != len(b) {
		return 0, fmt.Errorf("read the configuration space at %#x: %w", at, shortIO(err))
	}
	return binary.LittleEndian.Uint16(b[:]), nil
}

// setCommand sets and clears bits of the command register.
func (s configSpace) setCommand(set, clear uint16) error {
	command, err := s.config16(cfgCommand)
	if err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint16(nil, command&^clear|set)
	if n, err := unix.Pwrite(s.fd, b, s.at+cfgCommand); err != nil || n != len(b) {
		return fmt.Errorf("write the PCI command register: %w", shortIO(err))
	}
	return nil
}

// shortIO is the reason why a read or write did not move all bytes.
func shortIO(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// capabilityOffsets walks the capability list in a configuration space, 48
// capabilities at most. One that lies beyond the end of config is the last.
func capabilityOffsets(config []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(config) < cfgHeaderSize || binary.LittleEndian.Uint16(config[cfgStatus:])&statusCapList == 0 {
			return
		}
		at := int(config[cfgCapabilities]) &^ 3
		for steps := 0; at >= cfgHeaderSize && steps < maxCapabilities; steps++ {
			if !yield(at) || at+capNext >= len(config) {
				return
			}
			at = int(config[at+capNext]) &^ 3
		}
	}
}

// findMSIX gives the offset of the MSI-X capability, 0 when there is none.
func findMSIX(config []byte) int {
	for at := range capabilityOffsets(config) {
		if at+msixControl+2 <= len(config) && config[at] == capMSIX {
			return at
		}
	}
	return 0
}
