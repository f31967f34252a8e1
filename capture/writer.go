package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/gopacket/gopacket"
	linktype "github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"vionet/port"
)

// MaxSnapLen is the largest number of bytes of a packet that are kept, and the
// default.
const MaxSnapLen = 65535

// WriterConfig says what a file tells of itself. The zero value is usable.
type WriterConfig struct {
	// Application is the program that made the file; "vionet" if empty.
	Application string
	// Comment is about the whole file, for people; "": none.
	Comment string
	// Filter says which packets were looked for, for people; "": all.
	Filter string
	// SnapLen is how many bytes of a packet are kept at most, 1 to MaxSnapLen;
	// 0: MaxSnapLen.
	SnapLen int
}

// complete gives c with its defaults filled in, if a file can be made of it.
func (c WriterConfig) complete(sources []Source) (WriterConfig, error) {
	if c.Application == "" {
		c.Application = "vionet"
	}
	if c.SnapLen == 0 {
		c.SnapLen = MaxSnapLen
	}
	switch {
	case len(sources) == 0:
		return c, fmt.Errorf("capture: %w: there is no queue to capture from: name one", port.ErrInvalid)
	case c.SnapLen < 0 || c.SnapLen > MaxSnapLen:
		return c, fmt.Errorf("capture: %w: %d bytes of a packet: must be 1 to %d", port.ErrInvalid, c.SnapLen, MaxSnapLen)
	}
	return c, nil
}

// Writer writes Ethernet frames as pcapng. One goroutine at a time may call it.
type Writer struct {
	cfg        WriterConfig
	out        *pcapgo.NgWriter
	begin      time.Time
	interfaces map[Source]*iface
}

// iface is an interface of the file.
type iface struct {
	id               int
	options          pcapgo.NgPacketOptions // of each of its packets
	written, dropped uint64
}

// writeBuffer is the size in bytes of the pieces in which files are written.
const writeBuffer = 256 << 10

// NewWriter begins a file with interfaces for the sources, of which there must be
// at least one; others are added when their first packet comes. The file is not
// whole before Close. An error wraps port.ErrInvalid, or is that of out.
func NewWriter(out io.Writer, cfg WriterConfig, sources ...Source) (*Writer, error) {
	cfg, err := cfg.complete(sources)
	if err != nil {
		return nil, err
	}
	w := &Writer{cfg: cfg, begin: time.Now(), interfaces: map[Source]*iface{}}
	section := pcapgo.NgSectionInfo{Application: cfg.Application, Comment: cfg.Comment, OS: runtime.GOOS, Hardware: runtime.GOARCH}
	w.out, err = pcapgo.NewNgWriterInterface(bufio.NewWriterSize(out, writeBuffer), w.describe(sources[0]), pcapgo.NgWriterOptions{SectionInfo: section})
	if err != nil {
		return nil, err
	}
	w.interfaces[sources[0]] = newIface(0, sources[0])
	for _, s := range sources[1:] {
		if _, err := w.interfaceOf(s); err != nil {
			return nil, err
		}
	}
	return w, w.Flush()
}

func newIface(id int, s Source) *iface {
	flags, queue := &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}, uint32(s.Queue)
	if s.Dir == Tx {
		flags.Direction = pcapgo.NgEpbFlagDirectionOutbound
	}
	return &iface{id: id, options: pcapgo.NgPacketOptions{Flags: flags, Queue: &queue}}
}

// describe gives the interface for the source.
func (w *Writer) describe(s Source) pcapgo.NgInterface {
	return pcapgo.NgInterface{
		Name: s.String(), LinkType: linktype.LinkTypeEthernet,
		SnapLength: uint32(w.cfg.SnapLen), Filter: w.cfg.Filter,
	}
}

func (w *Writer) interfaceOf(s Source) (*iface, error) {
	if i, ok := w.interfaces[s]; ok {
		return i, nil
	}
	id, err := w.out.AddInterface(w.describe(s))
	if err != nil {
		return nil, err
	}
	w.interfaces[s] = newIface(id, s)
	return w.interfaces[s], nil
}

// Write appends a packet that was length bytes long. Of frame, its beginning or all
// of it, SnapLen bytes are kept; it stays the caller's.
func (w *Writer) Write(from Source, at time.Time, frame []byte, length int) error {
	i, err := w.interfaceOf(from)
	if err != nil {
		return err
	}
	frame = frame[:min(len(frame), w.cfg.SnapLen)]
	info := gopacket.CaptureInfo{Timestamp: at, InterfaceIndex: i.id, CaptureLength: len(frame), Length: length}
	if err := w.out.WritePacketWithOptions(info, frame, i.options); err != nil {
		return err
	}
	i.written++
	return nil
}

// LeftOut counts n packets of the source that are not in the file.
func (w *Writer) LeftOut(from Source, n uint64) error {
	i, err := w.interfaceOf(from)
	if err == nil {
		i.dropped += n
	}
	return err
}

// Flush brings what was written to the writer behind.
func (w *Writer) Flush() error { return w.out.Flush() }

// Close ends the file with the statistics of its interfaces. The writer behind it
// is the caller's to close.
func (w *Writer) Close() error {
	now := time.Now()
	var errs []error
	for _, i := range w.interfaces {
		errs = append(errs, w.out.WriteInterfaceStats(i.id, pcapgo.NgInterfaceStatistics{
			LastUpdate: now, StartTime: w.begin, EndTime: now,
			PacketsReceived: i.written + i.dropped, PacketsDropped: i.dropped,
		}))
	}
	return errors.Join(append(errs, w.Flush())...)
}
