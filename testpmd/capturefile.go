package testpmd

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/gopacket/gopacket"
	linktype "github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"vionet/testpmd/engine"
)

// captureSource is where captured packets come from: a queue, in one direction.
type captureSource struct {
	dir         engine.Direction
	port, queue int
}

// captureFile is a pcapng file with an interface for each source.
type captureFile struct {
	file       *os.File
	writer     *pcapgo.NgWriter
	interfaces map[captureSource]int
}

// captureBuffer is the size in bytes of the pieces in which files are written.
const captureBuffer = 256 << 10

// newCaptureFile makes a file with interfaces for sources, of which there is at
// least one; others are added when their first packet comes.
func newCaptureFile(name string, sources []captureSource) (*captureFile, error) {
	if len(sources) == 0 {
		return nil, errors.New("there is no queue to capture from")
	}
	// A pipe that nobody reads must not hold the console up.
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	c := &captureFile{file: f, interfaces: map[captureSource]int{}}
	if err := c.begin(sources); err != nil {
		f.Close()
		return nil, err
	}
	return c, nil
}

func (c *captureFile) begin(sources []captureSource) error {
	info, err := c.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", c.file.Name())
	}
	options := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "vionet testpmd"}}
	c.writer, err = pcapgo.NewNgWriterInterface(bufio.NewWriterSize(c.file, captureBuffer), sources[0].describe(), options)
	if err != nil {
		return err
	}
	c.interfaces[sources[0]] = 0
	for _, s := range sources[1:] {
		if _, err := c.interfaceOf(s); err != nil {
			return err
		}
	}
	return c.writer.Flush()
}

// describe gives the interface for the source.
func (s captureSource) describe() pcapgo.NgInterface {
	return pcapgo.NgInterface{
		Name:     fmt.Sprintf("port%d-%s-q%d", s.port, s.dir, s.queue),
		LinkType: linktype.LinkTypeEthernet, SnapLength: captureSnap,
	}
}

func (c *captureFile) interfaceOf(s captureSource) (int, error) {
	if id, ok := c.interfaces[s]; ok {
		return id, nil
	}
	id, err := c.writer.AddInterface(s.describe())
	c.interfaces[s] = id
	return id, err
}

// write appends what a block holds.
func (c *captureFile) write(b *captureBlock) error {
	id, err := c.interfaceOf(b.source)
	if err != nil {
		return err
	}
	info := gopacket.CaptureInfo{Timestamp: b.at, InterfaceIndex: id}
	start := 0
	for _, p := range b.packets {
		info.CaptureLength, info.Length = p.end-start, p.length
		if err := c.writer.WritePacket(info, b.data[start:p.end]); err != nil {
			return err
		}
		start = p.end
	}
	return nil
}

func (c *captureFile) flush() error { return c.writer.Flush() }

// close ends the file.
func (c *captureFile) close() error { return errors.Join(c.writer.Flush(), c.file.Close()) }
