package netstack

import (
	"fmt"
	"time"

	"vionet/mbuf"
	"vionet/port"
)

// Config says how an Endpoint uses its port.
type Config struct {
	// Pool gives the buffers for both directions; it must be given. One that has
	// no buffers left for sending when the receive rings are full is refused.
	Pool *mbuf.Pool
	// Queues is the number of queue pairs; 0: 1.
	Queues int
	// MTU is the largest IP packet in bytes; 0: the port's default. What the
	// device cannot carry is refused.
	MTU int
	// Spin is how long a goroutine that receives polls, after the last packet,
	// before it sleeps; 0: not at all. A spin as long as a wake-up takes, some
	// tens of microseconds, spares it while packets come and go.
	Spin time.Duration
	// WithoutRx and WithoutTx are offloads to do without, even where the port has
	// them.
	WithoutRx port.RxOffloads
	WithoutTx port.TxOffloads
}

// Offloads that an endpoint can use.
const (
	rxChecksums = port.RxTCPCksum | port.RxUDPCksum
	rxOffloads  = rxChecksums | port.RxTCPLRO | port.RxScatter
	txOffloads  = port.TxTCPCksum | port.TxTCPTSO | port.TxMultiSegs
)

// Sizes in bytes.
const (
	// maxHeaders is what Ethernet, IP and TCP take at most, with all options.
	maxHeaders = 14 + 60 + 60
	// gsoHeaders is what the stack takes off the limit of a large packet for its
	// headers.
	gsoHeaders = 160 + 1
	// minMSS is the smallest segment that the stack's TCP agrees to.
	minMSS = 88
)

// configure configures p as cfg says.
func (cfg Config) configure(p port.Port) error {
	info := p.Info()
	cfg.Queues = max(cfg.Queues, 1)
	switch most := min(info.MaxRxQueues, info.MaxTxQueues); {
	case cfg.Queues > most:
		// Asking for offloads where they are available would cut the queues too.
		return fmt.Errorf("%d queue pairs: %w: the port has %d", cfg.Queues, port.ErrInvalid, most)
	case cfg.Spin < 0:
		return fmt.Errorf("a spin of %v: %w: must not be negative", cfg.Spin, port.ErrInvalid)
	case cfg.Pool != nil && cfg.Pool.BufSize()-mbuf.Headroom < maxHeaders:
		return fmt.Errorf("buffers of %d bytes: %w: all headers must fit into one, make them %d or more",
			cfg.Pool.BufSize(), port.ErrInvalid, maxHeaders+mbuf.Headroom)
	}
	return p.Configure(port.Config{
		RxQueues: cfg.Queues, TxQueues: cfg.Queues, Pool: cfg.Pool, MTU: cfg.MTU,
		RxOffloads: rxOffloads &^ cfg.WithoutRx, TxOffloads: txOffloads &^ cfg.WithoutTx,
		RxInterrupts: true, TxInterrupts: true, WhereAvailable: true,
	})
}
