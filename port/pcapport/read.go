package pcapport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"vionet/port"
)

// readBuffer is the size in bytes of the pieces in which files are read.
const readBuffer = 256 << 10

// reader is what pcap and pcapng files have in common.
type reader interface {
	ZeroCopyReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	LinkType() layers.LinkType
}

// capture is a capture file that is read frame by frame.
type capture struct {
	reader
	file  *os.File
	count int // frames read
}

// openCapture opens a file of any known kind.
func openCapture(name string) (*capture, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: a regular file is wanted, since the reader of another one may have to wait", name, port.ErrInvalid)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	c := &capture{file: f}
	if c.reader, err = newReader(bufio.NewReaderSize(f, readBuffer)); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: not a capture file: %w", name, noEOF(err))
	}
	if kind := c.LinkType(); kind != layers.LinkTypeEthernet {
		f.Close()
		return nil, fmt.Errorf("%s: %w: it holds %v packets, wanted are Ethernet frames", name, port.ErrInvalid, kind)
	}
	return c, nil
}

func newReader(r *bufio.Reader) (reader, error) {
	sectionHeader := []byte{0x0a, 0x0d, 0x0d, 0x0a}
	if magic, err := r.Peek(len(sectionHeader)); err == nil && bytes.Equal(magic, sectionHeader) {
		return pcapgo.NewNgReader(r, pcapgo.NgReaderOptions{})
	}
	return pcapgo.NewReader(r)
}

// next gives the next frame, which stays until the one after it is read, or
// io.EOF behind the last one.
func (c *capture) next() ([]byte, error) {
	for {
		frame, _, err := c.ZeroCopyReadPacketData()
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("%s: frame %d: %w", c.file.Name(), c.count+1, err)
		}
		c.count++
		if len(frame) > 0 && len(frame) <= maxFrame {
			return frame, nil
		}
	}
}

func (c *capture) close() { c.file.Close() }

// noEOF makes the end of an empty file something that people understand.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// maxLoop bounds the bytes of the frames that are kept to be played again.
const maxLoop = 256 << 20

// loop plays frames from memory for ever.
type loop struct {
	bytes []byte
	ends  []int // where each frame ends
	at    int
}

// readLoop reads a whole file. One without frames could never be played.
func readLoop(c *capture) (*loop, error) {
	l := new(loop)
	for {
		frame, err := c.next()
		switch {
		case err == io.EOF && len(l.ends) == 0:
			return nil, fmt.Errorf("%s: %w: it holds no frame to play again and again", c.file.Name(), port.ErrInvalid)
		case err == io.EOF:
			return l, nil
		case err != nil:
			return nil, err
		case len(l.bytes)+len(frame) > maxLoop:
			return nil, fmt.Errorf("%s: %w: infinite_rx=1 keeps the frames in memory, at most %d bytes", c.file.Name(), port.ErrInvalid, maxLoop)
		}
		l.bytes = append(l.bytes, frame...)
		l.ends = append(l.ends, len(l.bytes))
	}
}

func (l *loop) next() ([]byte, error) {
	start := 0
	if l.at > 0 {
		start = l.ends[l.at-1]
	}
	frame := l.bytes[start:l.ends[l.at]]
	if l.at++; l.at == len(l.ends) {
		l.at = 0
	}
	return frame, nil
}
