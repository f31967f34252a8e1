package packet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/bpf"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
)

// Config says how a Conn works. The zero value is usable.
type Config struct {
	// MTU is the size in bytes of the largest packet in a frame; 0: the port's
	// default, 1500.
	MTU int
	// Spin is how long a read polls for frames before it sleeps, and how late a
	// frame may be for a sleep to be spared: some tens of microseconds, where
	// that matters. 0: it sleeps at once.
	Spin time.Duration
	// Poll never sleeps, for devices that have no interrupts: a read that waits
	// keeps a processor busy.
	Poll bool
	// Pool gives the buffers, at least 2048 of them, in memory that the port
	// reaches. It stays the caller's, who closes it after the Conn. nil: the Conn
	// makes one of its own, and the memory for it.
	Pool *mbuf.Pool
}

const (
	ringSize  = 512 // descriptors of each queue, where the device has as many
	poolSize  = 2048
	batch     = 32 // frames that are moved at a time
	headerLen = 14 // of Ethernet
	tagLen    = 4  // of a VLAN tag
)

// Conn is a net.PacketConn for the Ethernet frames of a port. A frame is its
// header of 14 bytes and what follows, without the frame check sequence.
//
// All methods may be called from any goroutine, several at a time. Reads take
// turns, and so do writes; the two do not wait for each other. Errors are of the
// type *net.OpError. They wrap os.ErrDeadlineExceeded behind a deadline,
// net.ErrClosed after Close, port.ErrGone when the device was removed, and the
// error of a queue whose device broke a rule.
type Conn struct {
	port port.Port
	free func() // the port's queues, for the next who claims them
	cfg  Config
	addr *Addr
	mtu  int
	mem  *mbuf.Memory // nil: the pool is the caller's

	ctx     context.Context // done at the end of the Conn
	end     context.CancelCauseFunc
	closing sync.Once
	closed  atomic.Bool

	in        *lane
	rx        port.RxQueue
	rxCache   *mbuf.Cache
	arrived   [batch]*mbuf.Buf // received, and not read yet:
	waiting   []*mbuf.Buf      // these of them
	done      [1]*mbuf.Buf     // read, to be freed
	joined    []byte           // a frame of several buffers, for the filter
	filter    atomic.Pointer[bpf.VM]
	alarm     port.Alarm // nil: noAlarm says why
	noAlarm   error
	selecting atomic.Bool // SyscallConn was called: a read that finds nothing sets the alarm
	armed     bool
	fd        sync.RWMutex // held for reading while the alarm's descriptor is lent

	out     *lane
	tx      port.TxQueue
	txCache *mbuf.Cache
	waiter  port.TxWaiter // nil: the queue can only be polled
	room    int           // descriptors of the transmit queue
	frames  [batch]*mbuf.Buf
}

var (
	_ net.PacketConn = (*Conn)(nil)
	_ syscall.Conn   = (*Conn)(nil)
	_ bpf.Setter     = (*Conn)(nil)
)

// Listen configures a port for one queue pair, without offloads, starts it, and
// gives the Conn on it. Frames for other stations come too where the port is
// promiscuous (port.Port.SetPromiscuous).
//
// The Conn owns the port from then on, and the function of its Notify; when
// Listen fails, the port is closed, unless that is since another Conn or adapter
// has it: then the error wraps port.ErrState. It wraps port.ErrNotSupported when
// the device has no interrupts: Config.Poll does without.
func Listen(p port.Port, cfg Config) (*Conn, error) {
	free, err := port.Claim(p, "package packet")
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	c := &Conn{port: p, free: free, cfg: cfg}
	if err := c.start(); err != nil {
		if errors.Is(err, port.ErrNotSupported) && !cfg.Poll {
			err = fmt.Errorf("%w: a device without interrupts takes Config.Poll", err)
		}
		err = errors.Join(err, p.Close())
		free()
		return nil, &net.OpError{Op: "listen", Net: network, Err: errors.Join(err, c.freeMemory())}
	}
	return c, nil
}

// start brings the port up.
func (c *Conn) start() error {
	if c.cfg.Spin < 0 {
		return fmt.Errorf("poll for %v before a sleep: %w: must not be negative", c.cfg.Spin, port.ErrInvalid)
	}
	if c.cfg.Spin > 0 && c.cfg.Poll {
		return fmt.Errorf("poll for %v, and poll for ever: %w: leave out Spin or Poll", c.cfg.Spin, port.ErrInvalid)
	}
	if err := c.makePool(); err != nil {
		return err
	}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.in, c.out = newLane(c.ctx), newLane(c.ctx)
	c.port.Notify(c.happened)
	sleeps := !c.cfg.Poll
	err := c.port.Configure(port.Config{
		RxDesc: ringSize, TxDesc: ringSize, MTU: c.cfg.MTU,
		RxInterrupts: sleeps, TxInterrupts: sleeps, Pool: c.cfg.Pool,
	})
	if err != nil {
		return err
	}
	if err := c.port.Start(); err != nil {
		return err
	}
	c.rx, c.tx = c.port.RxQueue(0), c.port.TxQueue(0)
	c.rxCache, c.txCache = c.cfg.Pool.NewCache(0), c.cfg.Pool.NewCache(0)
	c.rx.UseCache(c.rxCache)
	c.tx.UseCache(c.txCache)
	if sleeps {
		c.waiter, _ = c.tx.(port.TxWaiter)
	}
	c.alarm, c.noAlarm = port.AlarmOf(c.rx)
	info := c.port.Info()
	c.addr, c.mtu, c.room = &Addr{info.MAC}, info.MTU, info.TxDesc
	return nil
}

// makePool makes a pool of buffers that hold a whole frame each, unless there is
// one.
func (c *Conn) makePool() (err error) {
	if c.cfg.Pool != nil {
		return nil
	}
	buffer := max(mbuf.DefaultSize, mbuf.Headroom+headerLen+tagLen+c.cfg.MTU)
	cfg := mbuf.MemoryConfig{}
	if dev, ok := c.port.(device); ok {
		a := dev.Addressing()
		cfg.IOVA, cfg.Ranges = a.Mode, a.Ranges
		if cfg.Size, err = dev.RingMemory(1); err != nil {
			return err
		}
	}
	cfg.Size += ring.UsedAlign + mbuf.PoolMemory(cfg.IOVA, poolSize, buffer)
	if c.mem, err = mbuf.NewMemory(cfg); err != nil {
		return err
	}
	c.cfg.Pool, err = mbuf.NewPool(c.mem, mbuf.PoolConfig{Name: c.port.Name(), Count: poolSize, BufSize: buffer})
	return err
}

// device is a port that says what memory it needs; driver.Device does.
type device interface {
	Addressing() port.Addressing
	RingMemory(pairs int) (int, error)
}

// freeMemory gives back what makePool made.
func (c *Conn) freeMemory() error {
	if c.mem == nil {
		return nil
	}
	if c.cfg.Pool != nil {
		if err := c.cfg.Pool.Close(); err != nil {
			return err // another port has frames of ours still: the memory stays
		}
	}
	return c.mem.Close()
}

// happened is told of the port's events: those that end the Conn.
func (c *Conn) happened(e port.Event) {
	switch e {
	case port.Removed:
		c.end(fmt.Errorf("%w: close the Conn", port.ErrGone))
	case port.NeedsReset:
		c.end(fmt.Errorf("%w: the device needs a reset: close the Conn and listen anew", port.ErrState))
	}
}

// lingerTime is how long Close waits for the device to send what was written.
const lingerTime = 200 * time.Millisecond

// Close ends the Conn and closes the port. Reads and writes that wait return at
// once. Frames that were written are sent first, unless the device takes longer
// than 0.2 s for that, or cannot tell (Config.Poll). A second call does nothing.
func (c *Conn) Close() (err error) {
	c.closing.Do(func() { err = c.close() })
	if err != nil {
		return &net.OpError{Op: "close", Net: network, Source: c.addr, Err: err}
	}
	return nil
}

func (c *Conn) close() error {
	c.closed.Store(true)
	c.end(net.ErrClosed)
	c.in.close()
	c.out.close()
	c.linger()
	c.rxCache.Put(c.waiting)
	c.fd.Lock()
	defer c.fd.Unlock()
	err := c.port.Close()
	c.free()
	c.rxCache.Flush()
	c.txCache.Flush()
	return errors.Join(err, c.freeMemory())
}

// linger waits until every frame was sent. The error is of no interest: there is
// nothing else to do about a device that does not send.
func (c *Conn) linger() {
	if c.waiter == nil || c.room == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lingerTime)
	defer cancel()
	_ = c.waiter.Wait(ctx, c.room)
}

// LocalAddr is the port's address, an *Addr.
func (c *Conn) LocalAddr() net.Addr { return c.addr }

// MTU is the size in bytes of the largest packet that a frame can carry.
func (c *Conn) MTU() int { return c.mtu }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the time behind which reads fail with
// os.ErrDeadlineExceeded, those that wait already among them; zero: never. One
// that has passed ends them at once.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(c.in, t) }

// SetWriteDeadline does for writes what SetReadDeadline does for reads.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(c.out, t) }

func (c *Conn) setDeadline(l *lane, t time.Time) error {
	if err := l.setDeadline(t); err != nil {
		return c.failed("set", nil, err)
	}
	return nil
}

// failed says what failed. After Close nothing else counts.
func (c *Conn) failed(op string, to net.Addr, err error) error {
	if c.closed.Load() {
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: network, Source: c.addr, Addr: to, Err: err}
}
