package driver

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// UMEMConfig says what a UMEM is like.
type UMEMConfig struct {
	// Area is the application's own memory, which NewUMEM registers: see
	// mbuf.Memory.Register. Without bytes, the UMEM takes Frames frames from the
	// Memory, hugepages where that has them.
	Area   mbuf.Area
	Frames int
	// FrameSize is the size of a frame in bytes: a power of two from 256 to
	// 32768 that divides the area; 0: 2048.
	FrameSize int
	// FillSize and CompletionSize are the entries of the two rings, powers of
	// two; 0: 2048. No more frames are ever in transmission than the
	// completion ring has entries.
	FillSize, CompletionSize int
}

const (
	defaultFrameSize = 2048
	minFrameSize     = 256
	maxFrameSize     = 32768
	defaultXSKRing   = 2048
)

// UMEM is memory that is divided into frames, which an application fills and a
// device sends, or the other way round, without a copy: the UMEM of AF_XDP. An
// address in it is an offset in bytes from its start, and names the frame that
// it lies in.
//
// A frame belongs to the application until its address was submitted on a tx or
// the fill ring; then to the driver and its device, until it comes back on the
// completion or an rx ring. In between, nobody else may write to any part of it.
// The virtio-net header takes the bytes right in front of the data, within the
// frame; for data that begins less than a header's length behind the frame's
// start it is kept elsewhere, at the price of a second descriptor.
//
// One XSK at a time uses a UMEM; programs that drive several queues have one for
// each.
type UMEM struct {
	// Fill takes frames to receive into, Completion gives those back that were
	// sent. The application has one goroutine at a time on each.
	Fill       *ProducerRing[uint64]
	Completion *ConsumerRing[uint64]

	fill       *ConsumerRing[uint64]
	completion *ProducerRing[uint64]

	mem   *mbuf.Memory
	area  *mbuf.Registration // nil: zone
	zone  mbuf.Zone
	bytes []byte
	size  int  // of a frame
	shift uint // its logarithm

	// Each frame has a buffer to be received into and one to be sent in, of
	// which at most one is in use; freed, they go to different pools.
	pool, sent     *mbuf.Pool
	rxBufs, txBufs []mbuf.Buf

	mu     sync.Mutex
	user   *XSK // nil: nobody
	closed bool

	// These are the user's, under its lock. By number of a frame they say where
	// it is, and what is asked for it.
	where []place
	meta  []TxMeta
}

// place says where a frame is: the application has it, the fill ring brought it,
// or it is in transmission, and is 1 more than the address that was submitted.
type place uint64

const (
	atHome place = 0
	posted place = ^atHome
)

// TxMeta is what the device is asked to do to a frame that is sent. Flags are
// those of packets to send, and the lengths in bytes, as in mbuf.Buf. The port
// must have been started with the offloads that they ask for. The frame changes:
// its L4 checksum field is overwritten and, with mbuf.TxVLAN, the addresses are
// moved by the four bytes of the tag.
type TxMeta struct {
	Flags               mbuf.Flags
	L2Len, L3Len, L4Len uint16
	SegSize             uint16
	VLAN                uint16
}

// NewUMEM makes a UMEM in mem, on which ports may be running. All its frames
// are the application's. Errors wrap port.ErrInvalid, or are those of the memory.
func NewUMEM(mem *mbuf.Memory, cfg UMEMConfig) (*UMEM, error) {
	u, err := newUMEM(mem, cfg)
	if err != nil {
		return nil, fmt.Errorf("umem: %w", err)
	}
	return u, nil
}

func newUMEM(mem *mbuf.Memory, cfg UMEMConfig) (*UMEM, error) {
	for _, n := range []*int{&cfg.FillSize, &cfg.CompletionSize} {
		if *n == 0 {
			*n = defaultXSKRing
		}
	}
	if cfg.FrameSize == 0 {
		cfg.FrameSize = defaultFrameSize
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	u := &UMEM{mem: mem, size: cfg.FrameSize, shift: uint(bits.TrailingZeros(uint(cfg.FrameSize)))}
	var err error
	if u.Fill, u.fill, err = newXSKRing[uint64]("fill", cfg.FillSize); err != nil {
		return nil, err
	}
	if u.completion, u.Completion, err = newXSKRing[uint64]("completion", cfg.CompletionSize); err != nil {
		return nil, err
	}
	u.Fill.ring.asleep.Store(true)
	if err := u.takeMemory(cfg); err != nil {
		return nil, err
	}
	if err := u.divide(); err != nil {
		return nil, errors.Join(err, u.giveMemory(context.Background()))
	}
	return u, nil
}

// divide makes the buffers over the frames.
func (u *UMEM) divide() (err error) {
	if u.pool, u.rxBufs, err = mbuf.NewFramePool(u.mem, "umem", u.bytes, u.size); err != nil {
		return err
	}
	if u.sent, u.txBufs, err = mbuf.NewFramePool(u.mem, "umem sent", u.bytes, u.size); err != nil {
		return err
	}
	u.where, u.meta = make([]place, len(u.rxBufs)), make([]TxMeta, len(u.rxBufs))
	return nil
}

func (cfg UMEMConfig) check() error {
	size := len(cfg.Area.Bytes)
	switch {
	case cfg.FrameSize < minFrameSize || cfg.FrameSize > maxFrameSize || cfg.FrameSize&(cfg.FrameSize-1) != 0:
		return fmt.Errorf("%w: frames of %d bytes: must be a power of two, %d to %d", port.ErrInvalid, cfg.FrameSize, minFrameSize, maxFrameSize)
	case size == 0 && cfg.Frames <= 0:
		return fmt.Errorf("%w: %d frames and no area: say how many, or bring memory", port.ErrInvalid, cfg.Frames)
	case size%cfg.FrameSize != 0:
		return fmt.Errorf("%w: frames of %d bytes do not divide an area of %d: it would end with %d bytes over", port.ErrInvalid, cfg.FrameSize, size, size%cfg.FrameSize)
	case size != 0 && cfg.Frames != 0 && cfg.Frames != size/cfg.FrameSize:
		return fmt.Errorf("%w: %d frames of %d bytes in an area of %d: leave the number out", port.ErrInvalid, cfg.Frames, cfg.FrameSize, size)
	}
	return nil
}

// takeMemory registers the area, or takes one.
func (u *UMEM) takeMemory(cfg UMEMConfig) (err error) {
	if len(cfg.Area.Bytes) > 0 {
		u.area, err = u.mem.Register(cfg.Area)
		u.bytes = cfg.Area.Bytes
		return err
	}
	size, align := cfg.Frames*cfg.FrameSize, min(cfg.FrameSize, unix.Getpagesize())
	u.zone, err = u.mem.Alloc(size, align)
	if errors.Is(err, mbuf.ErrNoMemory) {
		if _, err = u.mem.Grow(size); err == nil {
			u.zone, err = u.mem.Alloc(size, align)
		}
	}
	u.bytes = u.zone.Bytes
	return err
}

func (u *UMEM) giveMemory(ctx context.Context) error {
	if u.area != nil {
		return u.area.Unregister(ctx)
	}
	u.mem.Free(u.zone)
	return nil
}

// Bytes is the memory, all frames of it.
func (u *UMEM) Bytes() []byte { return u.bytes }

// Data gives n bytes at an address; nil when they do not lie in one frame.
func (u *UMEM) Data(addr uint64, n int) []byte {
	if u.outside(addr, uint64(n)) != nil {
		return nil
	}
	return u.bytes[addr : addr+uint64(n) : addr+uint64(n)]
}

// Meta is the place for what the device is asked to do to the frame at addr, an
// address in the UMEM. It belongs to whom the frame belongs to, and counts when
// a descriptor says XSKMetadata.
//
// AF_XDP has it in the frame, in front of the data. There is the virtio-net
// header's place here, so that it would have to be written anew each time.
func (u *UMEM) Meta(addr uint64) *TxMeta { return &u.meta[addr>>u.shift] }

// Frames is the number of frames, FrameSize the bytes of each: frame i starts at
// address i times that.
func (u *UMEM) Frames() int { return len(u.where) }

// FrameSize is the size of a frame in bytes.
func (u *UMEM) FrameSize() int { return u.size }

// Pool is for port.Config.Pool of a port that shall receive into the frames
// themselves. It holds those that came with the fill ring.
func (u *UMEM) Pool() *mbuf.Pool { return u.pool }

// outside says why n bytes at an address do not lie in one frame, or is nil.
func (u *UMEM) outside(addr, n uint64) error {
	switch {
	case addr >= uint64(len(u.bytes)):
		return fmt.Errorf("the UMEM ends at %#x", len(u.bytes))
	case n > uint64(u.size)-addr&uint64(u.size-1):
		return fmt.Errorf("it goes beyond the end of its frame of %d bytes", u.size)
	}
	return nil
}

// lock makes x the user of the UMEM, unless there is one.
func (u *UMEM) lock(x *XSK) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.closed:
		return fmt.Errorf("the UMEM: %w", port.ErrClosed)
	case u.user != nil:
		return fmt.Errorf("%w: another XSK uses the UMEM: close that, or make a UMEM for each", port.ErrState)
	}
	u.user = x
	return nil
}

func (u *UMEM) unlock() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.user = nil
}

// Close takes the memory from the devices, also while ports run, and gives it
// back: an Area to the application. It fails with port.ErrState while an XSK uses
// the UMEM, or a port may receive into its frames. What it waits for, see
// mbuf.Registration.Unregister. A second call does nothing.
func (u *UMEM) Close(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	if u.user != nil {
		return fmt.Errorf("umem: close: %w: an XSK uses it: close that first", port.ErrState)
	}
	out := -u.pool.Free()
	for _, p := range u.where {
		if p == posted {
			out++
		}
	}
	if out > 0 {
		return fmt.Errorf("umem: close: %w: %d frames are still with the device: stop the port that receives into them", port.ErrState, out)
	}
	if err := u.giveMemory(ctx); err != nil {
		return fmt.Errorf("umem: close: %w", err)
	}
	u.closed = true
	return nil
}
