package netstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"vionet/mbuf"
	"vionet/port"
)

// Endpoint is a port as the stack sees it. Its methods may be called from any
// goroutine.
type Endpoint struct {
	port   port.Port
	free   func() // the port's queues, for the next who claims them
	cfg    Config
	maxMTU uint32 // the port's
	rx     []*rxQueue
	tx     []*txQueue
	trust  trust

	mtu     atomic.Uint32
	gsoMax  atomic.Uint32
	station atomic.Pointer[tcpip.LinkAddress]
	run     atomic.Pointer[run] // nil: the port is stopped
	closing atomic.Bool
	strays  atomic.Uint64
	waits   atomic.Uint64
	refused atomic.Uint64

	// life is held from the beginning of Start, Stop and Close to their end: while
	// they wait for goroutines that deliver packets. These may be waiting for the
	// stack, which calls Attach with its own lock held; mu alone is for that.
	life   sync.Mutex
	adding sync.Mutex // held while AddTo makes its interface

	mu         sync.Mutex
	dispatcher stack.NetworkDispatcher
	detach     context.CancelFunc // ends the goroutines of the dispatcher
	onClose    func()
	err        error
	workers    sync.WaitGroup
}

var (
	_ stack.LinkEndpoint = (*Endpoint)(nil)
	_ stack.GSOEndpoint  = (*Endpoint)(nil)
)

// run is the time from a Start to the next Stop.
type run struct {
	ctx context.Context
	end context.CancelFunc
}

// Stats count what the port's own statistics do not show.
type Stats struct {
	Strays  uint64 // received frames for other stations, which the stack did not get
	Waits   uint64 // packets that had to wait for room in the ring, or for buffers
	Refused uint64 // packets that went back to the stack with an error
}

// New makes an endpoint of a stopped port, which it configures as cfg says, and
// starts. The port is the endpoint's from then on, Close included; on an error it
// is still the caller's, and stopped.
//
// The errors are those of the port and of cfg: port.ErrInvalid, port.ErrState for
// a port that is started or in use by another adapter, and port.ErrClosed.
func New(p port.Port, cfg Config) (*Endpoint, error) {
	free, err := claim(p)
	if err != nil {
		return nil, err
	}
	e, err := newEndpoint(p, free, cfg)
	if err != nil {
		free()
		return nil, err
	}
	return e, nil
}

func claim(p port.Port) (free func(), err error) {
	if free, err = port.Claim(p, "package netstack"); err != nil {
		return nil, fmt.Errorf("netstack on %w", err)
	}
	return free, nil
}

func newEndpoint(p port.Port, free func(), cfg Config) (*Endpoint, error) {
	if err := cfg.configure(p); err != nil {
		return nil, fmt.Errorf("netstack on %s: %w", p.Name(), err)
	}
	info := p.Info()
	e := &Endpoint{port: p, free: free, cfg: cfg, maxMTU: uint32(info.MTU)}
	e.mtu.Store(e.maxMTU)
	e.setStation(info.MAC)
	for range info.RxQueues {
		e.rx = append(e.rx, newRxQueue(e))
	}
	for range info.TxQueues {
		e.tx = append(e.tx, newTxQueue(e))
	}
	if err := e.Start(); err != nil {
		return nil, err
	}
	return e, nil
}

// AddTo makes a network interface of s with the endpoint; it is
// stack.CreateNICWithOptions with errors that say what to do. An endpoint belongs
// to one stack at a time; the error for a second one wraps port.ErrState.
func (e *Endpoint) AddTo(s *stack.Stack, id tcpip.NICID, opts stack.NICOptions) error {
	e.adding.Lock()
	defer e.adding.Unlock()
	switch {
	case e.closing.Load():
		return e.failed(port.ErrClosed)
	case e.IsAttached():
		return e.failed(fmt.Errorf("%w: it is attached to a stack already: remove that interface first, or make an endpoint on another port", port.ErrState))
	}
	switch err := s.CreateNICWithOptions(id, e, opts); err.(type) {
	case nil:
		return nil
	case *tcpip.ErrInvalidNICID, *tcpip.ErrDuplicateNICID:
		return e.failed(fmt.Errorf("interface %d %q of the stack: %w: number and name must not be in use, and the number not 0", id, opts.Name, port.ErrInvalid))
	default:
		return e.failed(fmt.Errorf("interface %d of the stack: %v", id, err))
	}
}

func (e *Endpoint) failed(err error) error {
	return fmt.Errorf("netstack on %s: %w", e.port.Name(), err)
}

// Start starts the port of an endpoint that Stop stopped; New has started it
// already. On a started one it does nothing.
func (e *Endpoint) Start() error {
	e.life.Lock()
	defer e.life.Unlock()
	switch {
	case e.closing.Load():
		return e.failed(port.ErrClosed)
	case e.run.Load() != nil:
		return nil
	}
	if err := e.port.Start(); err != nil {
		return e.failed(err)
	}
	r := new(run)
	r.ctx, r.end = context.WithCancel(context.Background())
	info := e.port.Info()
	e.trust.asked.Store(info.RxActive&(rxChecksums|port.RxTCPLRO) != 0)
	for i, q := range e.rx {
		q.start(e.port.RxQueue(i))
	}
	for i, q := range e.tx {
		q.start(e.port.TxQueue(i), r.ctx, info)
	}
	if err := e.checkPool(); err != nil {
		r.end()
		return errors.Join(err, e.stopPort())
	}
	e.gsoMax.Store(e.tx[0].gsoMaxSize())
	e.setError(nil)
	e.run.Store(r)
	for _, t := range e.turns() {
		t.give()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listen()
	return nil
}

// checkPool wants buffers left to send from, now that the receive rings are full.
func (e *Endpoint) checkPool() error {
	pool, want := e.cfg.Pool, 0
	for _, q := range e.tx {
		want += q.mostBuffers()
	}
	if free := pool.Free(); free < want {
		return e.failed(fmt.Errorf("pool %s: %w: of its %d buffers %d are left for sending: it takes %d more", pool.Name(), port.ErrInvalid, pool.Size(), free, want-free))
	}
	return nil
}

// Stop stops the port, for a change of it, say: the stack stays, its packets are
// refused meanwhile, and its connections go on after Start. On a stopped one it
// does nothing.
func (e *Endpoint) Stop() error {
	e.life.Lock()
	defer e.life.Unlock()
	if e.closing.Load() {
		return e.failed(port.ErrClosed)
	}
	return e.stop()
}

// stop is Stop; the caller has life.
func (e *Endpoint) stop() error {
	r := e.run.Swap(nil)
	if r == nil {
		return nil
	}
	r.end()
	for _, t := range e.turns() {
		t.take()
	}
	return e.stopPort()
}

// stopPort stops the port, whose queues nobody uses, and empties the caches.
func (e *Endpoint) stopPort() error {
	err := e.port.Stop()
	for _, q := range e.rx {
		q.cache.Flush()
	}
	for _, q := range e.tx {
		q.cache.Flush()
	}
	if err != nil {
		return e.failed(err)
	}
	return nil
}

func (e *Endpoint) turns() (all []turn) {
	for _, q := range e.rx {
		all = append(all, q.turn)
	}
	for _, q := range e.tx {
		all = append(all, q.turn)
	}
	return all
}

// Close removes the interface from the stack, and stops and closes the port. A
// second call does nothing. What went wrong is told by Err.
func (e *Endpoint) Close() {
	if !e.closing.CompareAndSwap(false, true) {
		return // also when the stack, removing the interface, comes here again
	}
	e.mu.Lock()
	removeInterface := e.onClose
	e.mu.Unlock()
	if removeInterface != nil {
		removeInterface()
	}
	e.Attach(nil)
	e.life.Lock()
	defer e.life.Unlock()
	err := e.stop()
	e.workers.Wait()
	if err = errors.Join(err, e.port.Close()); err != nil {
		e.setError(err)
	}
	e.free()
}

// SetOnCloseAction sets what Close does first: the stack has it remove the
// interface.
func (e *Endpoint) SetOnCloseAction(action func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onClose = action
}

// Attach has received packets delivered to d, or to nobody when it is nil. The
// stack calls it; AddTo is for everybody else. While one is attached, another is
// ignored.
func (e *Endpoint) Attach(d stack.NetworkDispatcher) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case d == nil:
		e.dispatcher = nil
		if e.detach != nil {
			e.detach()
			e.detach = nil
		}
	case e.dispatcher == nil:
		e.dispatcher = d
		e.listen()
	}
}

// listen starts the goroutines that receive, once there is somebody to receive
// for and something to receive from. Those of an earlier time may not be through:
// each takes its queue's turn first. The caller has mu.
func (e *Endpoint) listen() {
	r := e.run.Load()
	if e.dispatcher == nil || r == nil || e.closing.Load() {
		return
	}
	if e.detach != nil {
		e.detach() // it was the last run's
	}
	var ctx context.Context
	ctx, e.detach = context.WithCancel(r.ctx)
	d := e.dispatcher
	for _, q := range e.rx {
		e.workers.Go(func() { q.receive(ctx, d) })
	}
}

// IsAttached reports whether received packets are delivered to a stack.
func (e *Endpoint) IsAttached() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dispatcher != nil
}

// Wait does nothing. The stack calls it with its lock held, for which goroutines
// that deliver a packet may be waiting. Close, which it calls without, waits for
// them.
func (e *Endpoint) Wait() {}

// Err is nil, or why a queue of the port has stopped for good, which Stop and
// Start bring back, or what went wrong in Close.
func (e *Endpoint) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (e *Endpoint) setError(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// Stats reads the counters, which go on through Stop and Start.
func (e *Endpoint) Stats() Stats {
	return Stats{Strays: e.strays.Load(), Waits: e.waits.Load(), Refused: e.refused.Load()}
}

// Port is the endpoint's port, for its statistics and its Info. It is not to be
// configured, started, stopped or closed by others.
func (e *Endpoint) Port() port.Port { return e.port }

func (e *Endpoint) setStation(mac net.HardwareAddr) {
	station := tcpip.LinkAddress(mac)
	e.station.Store(&station)
}

// buffers is the number of buffers with room bytes each that hold n bytes.
func buffers(n, room int) int { return (n + room - 1) / room }

// room is the number of bytes of a frame that a buffer of the pool holds.
func room(pool *mbuf.Pool) int { return pool.BufSize() - mbuf.Headroom }
