package port

import "fmt"

// Limits are what a software port can be configured for.
type Limits struct {
	RxQueues, TxQueues int    // at most
	QueueHint          string // how to get more queues; "": in no way
	RxOffloads         RxOffloads
	TxOffloads         TxOffloads
	OffloadHint        string // why there are no others
	MinMTU, MaxMTU     int    // bytes
}

// Fit gives c as a port with these limits takes it: with a queue at least, and
// cut to what there is if c asks for WhereAvailable. What does not fit is an
// error that wraps ErrInvalid or ErrNotSupported.
func (l Limits) Fit(c Config) (Config, error) {
	c.RxQueues, c.TxQueues = max(c.RxQueues, 1), max(c.TxQueues, 1)
	if c.WhereAvailable {
		c.RxQueues, c.TxQueues = min(c.RxQueues, l.RxQueues), min(c.TxQueues, l.TxQueues)
		c.RxOffloads &= l.RxOffloads
		c.TxOffloads &= l.TxOffloads
	}
	switch {
	case c.RxQueues > l.RxQueues || c.TxQueues > l.TxQueues:
		return c, fmt.Errorf("%d receive and %d transmit queues: %w: at most %d and %d%s", c.RxQueues, c.TxQueues, ErrInvalid, l.RxQueues, l.TxQueues, l.QueueHint)
	case c.RxOffloads&^l.RxOffloads != 0 || c.TxOffloads&^l.TxOffloads != 0:
		return c, fmt.Errorf("offloads: %w: %s", ErrNotSupported, l.OffloadHint)
	case c.MTU != 0 && (c.MTU < l.MinMTU || c.MTU > l.MaxMTU):
		return c, fmt.Errorf("MTU %d: %w: must be between %d and %d", c.MTU, ErrInvalid, l.MinMTU, l.MaxMTU)
	case c.Pool == nil:
		return c, fmt.Errorf("%w: a pool for the received packets is missing", ErrInvalid)
	}
	return c, nil
}
