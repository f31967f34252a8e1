package testpmd

import (
	"fmt"
	"strings"
	"time"

	"vionet/driver"
	"vionet/testpmd/engine"
)

func txBufferCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set txbuffer (num|off)", help: "Make packets wait in front of transmit queues until there are that many, or the forwarding loop has made its turn; from the next start on.", run: (*Console).setTxBuffer},
		{section: configSection, pattern: "set txbuffer (num) drain (microseconds)", help: "The same, and have packets wait that long for others, turn after turn.", run: (*Console).setTxBuffer},
		{section: configSection, pattern: "set txbuffer (num) retries (num)", help: "The same, and set how often what a port did not take is offered again; the retries of modes \"with retry\" do not count then.", run: (*Console).setTxBuffer},
		{section: configSection, pattern: "set txbuffer (num) drain (microseconds) retries (num)", help: "Both, in either order.", run: (*Console).setTxBuffer},
		{pattern: "set txbuffer (num) retries (num) drain (microseconds)", run: (*Console).setTxBuffer},
		{section: displaySection, pattern: "show txbuffer", help: "Show how packets wait in front of transmit queues, and what that brought in the forwarding of now or the last one.", run: (*Console).showTxBuffer, json: (*Console).txBufferJSON},
	}
}

// maxDrainMicros bounds how long packets wait.
const maxDrainMicros = 1_000_000

// setTxBuffer keeps what the next start uses. Options that are not named have
// their default.
func (c *Console) setTxBuffer(a args) {
	if a[2] == "off" {
		c.txBuffer = driver.TxBufferConfig{}
		c.printf("%s", c.txBufferText())
		return
	}
	size, drain, retries := a.num(2), uint64(0), uint64(0)
	for i := 3; i < len(a); i += 2 {
		if a[i] == "drain" {
			drain = a.num(i + 1)
		} else {
			retries = a.num(i + 1)
		}
	}
	switch {
	case !c.fitsTxRings(size):
	case drain > maxDrainMicros:
		c.errorf("txbuffer drain: %d > %d (maximum microseconds)  ignored\n", drain, maxDrainMicros)
	case retries > maxRetries:
		c.errorf("txbuffer retries: %d > %d (maximum number of retries)  ignored\n", retries, maxRetries)
	default:
		c.txBuffer = driver.TxBufferConfig{Size: int(size), Drain: time.Duration(drain) * time.Microsecond, Retries: int(retries)}
		c.printf("%s", c.txBufferText())
	}
}

// fitsTxRings complains about a buffer that holds no packet, or more than the
// transmit queue of a port has descriptors.
func (c *Console) fitsTxRings(size uint64) bool {
	if size < 1 || size > driver.MaxTxBuffer {
		c.errorf("txbuffer %d invalid - must be >= 1 && <= %d, or off\n", size, driver.MaxTxBuffer)
		return false
	}
	for _, p := range c.openPorts() {
		if ring := p.Info().TxDesc; ring > 0 && size > uint64(ring) {
			c.errorf("txbuffer %d invalid - must be <= %d (number of TXDs of port %d)\n", size, ring, p.id)
			return false
		}
	}
	return true
}

// txBufferText says how packets wait.
func (c *Console) txBufferText() string {
	cfg := c.txBuffer
	if cfg.Size == 0 {
		return "TX buffer: off\n"
	}
	return fmt.Sprintf("TX buffer: %d packets, drain %dus, retries %d\n", cfg.Size, cfg.Drain.Microseconds(), cfg.Retries)
}

// buffer makes the packets of a stream wait, if that is asked for.
func (c *Console) buffer(s *engine.Stream) error {
	if c.txBuffer.Size == 0 {
		return nil
	}
	cfg := c.txBuffer
	cfg.Desc = c.ports[s.TxPort].Info().TxDesc
	return s.Buffer(cfg)
}

// TxBufferStats are what the packets' waiting brought in front of a transmit
// queue.
type TxBufferStats struct {
	Port, Queue int // numbers
	driver.TxBufferStats
}

// TxBuffers gives them for the forwarding of now or the last one. Unlike the
// console's other methods, it may be called from any goroutine.
func (c *Console) TxBuffers() (list []TxBufferStats) {
	streams := c.lastStreams.Load()
	if streams == nil {
		return nil
	}
	for _, s := range *streams {
		if n, ok := s.Buffered(); ok {
			list = append(list, TxBufferStats{s.TxPort, s.TxQueue, n})
		}
	}
	return list
}

func (c *Console) showTxBuffer(args) {
	var b strings.Builder
	b.WriteString(c.txBufferText())
	for _, n := range c.TxBuffers() {
		fmt.Fprintf(&b, "  TX Port=%2d/Queue=%2d: flushes: %d (%d full, %d drained, %d asked) packets: %d packets/flush: %.1f dropped: %d retries: %d\n",
			n.Port, n.Queue, n.Flushes(), n.Full, n.Late, n.Asked, n.Packets, n.PerFlush(), n.Dropped, n.Retries)
	}
	c.printf("%s", b.String())
}

// txBufferConfigJSON is how packets wait.
type txBufferConfigJSON struct {
	Size    int   `json:"size"` // packets
	Drain   int64 `json:"drain_us"`
	Retries int   `json:"retries"`
}

// txBufferConfigJSON is nil while packets do not wait.
func (c *Console) txBufferConfigJSON() *txBufferConfigJSON {
	cfg := c.txBuffer
	if cfg.Size == 0 {
		return nil
	}
	return &txBufferConfigJSON{cfg.Size, cfg.Drain.Microseconds(), cfg.Retries}
}

// txBufferJSON is what "show txbuffer" shows.
type txBufferJSON struct {
	Config *txBufferConfigJSON `json:"tx_buffer"` // null: off
	Queues []bufferedTxqJSON   `json:"queues"`
}

type bufferedTxqJSON struct {
	PortID   int     `json:"port_id"`
	QueueID  int     `json:"queue_id"`
	Flushes  uint64  `json:"flushes"`
	Full     uint64  `json:"flushes_full"`
	Drained  uint64  `json:"flushes_drained"`
	Asked    uint64  `json:"flushes_asked"`
	Packets  uint64  `json:"packets"`
	PerFlush float64 `json:"packets_per_flush"`
	Dropped  uint64  `json:"dropped"`
	Retries  uint64  `json:"retries"`
}

func (c *Console) txBufferJSON(args) any {
	v := txBufferJSON{c.txBufferConfigJSON(), []bufferedTxqJSON{}}
	for _, n := range c.TxBuffers() {
		v.Queues = append(v.Queues, bufferedTxqJSON{n.Port, n.Queue, n.Flushes(), n.Full, n.Late, n.Asked, n.Packets, n.PerFlush(), n.Dropped, n.Retries})
	}
	return v
}
