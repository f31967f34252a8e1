package driver

import (
	"context"
	"fmt"

	"vionet/mbuf"
	"vionet/port"
)

// errEnded is the error of a queue whose port was stopped or closed.
var errEnded = fmt.Errorf("the queue has ended with its port: %w: take another one after the next start", port.ErrClosed)

// RxQueue gives a receive queue of the started port. In place of one that is not
// there it gives a queue on which nothing moves, and whose Err says why.
func (d *Device) RxQueue(i int) port.RxQueue {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.hasQueue("receive", i, len(d.rx)); err != nil {
		return noRxQueue{noQueue{err}}
	}
	return d.rx[i]
}

// TxQueue gives a transmit queue as RxQueue gives a receive queue.
func (d *Device) TxQueue(i int) port.TxQueue {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.hasQueue("transmit", i, len(d.tx)); err != nil {
		return noTxQueue{noQueue{err}}
	}
	return d.tx[i]
}

// hasQueue allocates nothing for a queue that is there: loops ask for theirs anew.
func (d *Device) hasQueue(side string, i, queues int) error {
	if d.state == started && i >= 0 && i < queues {
		return nil
	}
	what := fmt.Sprintf("%s queue %d", side, i)
	if err := d.mustBe(started, what); err != nil {
		return err
	}
	return fmt.Errorf("%s: %s: %w: there are %d, from 0 on", d.Name(), what, port.ErrInvalid, queues)
}

// noQueue stands for a queue that is not there.
type noQueue struct{ err error }

func (noQueue) Burst([]*mbuf.Buf) int        { return 0 }
func (noQueue) UseCache(*mbuf.Cache)         {}
func (q noQueue) Err() error                 { return q.err }
func (q noQueue) Alarm() (port.Alarm, error) { return nil, q.err }

type noRxQueue struct{ noQueue }

func (q noRxQueue) Wait(context.Context) error { return q.err }

type noTxQueue struct{ noQueue }

func (noTxQueue) Reclaim() int                      { return 0 }
func (q noTxQueue) Wait(context.Context, int) error { return q.err }
