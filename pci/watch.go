package pci

import (
	"context"
	"errors"
	"fmt"

	"vionet/port"
)

// presence is whether a device is there, as far as its signals tell.
type presence int32

const (
	present presence = iota
	leaving          // there, but the kernel wants it back
	lost             // not there: its registers may be gone too
)

// The errors of a device that is not present.
var (
	errLeaving = fmt.Errorf("%w: the kernel wants it back: close the port", ErrGone)
	errLost    = fmt.Errorf("%w: it does not answer: close the port", ErrGone)
)

func (p presence) err() error { return [...]error{present: nil, leaving: errLeaving, lost: errLost}[p] }

// Watch registers the function that is told of changes of the configuration,
// of the link among them, and once when the device is removed or the kernel
// wants it back: the next call of another method then returns an error that
// wraps ErrGone. It is called on goroutines of the transport's own, which end
// with Close; Close does not wait for a call that is under way. Another Watch
// takes its place, nil ends it.
//
// Where the function has no interrupts a warning is logged: read the
// configuration to see a change.
func (t *Transport) Watch(changed func()) {
	if changed == nil {
		t.changed.Store(nil)
		return
	}
	t.changed.Store(&changed)
	if t.closed {
		return
	}
	if err := join(t.startInterrupts(), t.watchRemoval()); err != nil {
		t.log.Warn("pci: changes of the link may go unnoticed", "bdf", t.bdf, "error", err.Error())
	}
}

// tell calls the function of Watch.
func (t *Transport) tell() {
	if changed := t.changed.Load(); changed != nil {
		(*changed)()
	}
}

// leave notes that the kernel wants the device back.
func (t *Transport) leave() {
	if t.presence.CompareAndSwap(int32(present), int32(leaving)) {
		t.tell()
	}
}

// lose notes that the device is not there any more.
func (t *Transport) lose() {
	if presence(t.presence.Swap(int32(lost))) == present {
		t.tell()
	}
}

// startInterrupts makes the interrupts work, once.
func (t *Transport) startInterrupts() error {
	if t.interrupts != nil {
		return nil
	}
	var err error
	t.interrupts, err = openInterrupts(t.access, t.regs, interruptEvents{
		changed: t.tell,
		gone:    t.lose,
		warn: func(err error) {
			t.log.Warn("pci: interrupts", "bdf", t.bdf, "error", err.Error())
		},
	})
	return err
}

// watchRemoval waits for the kernel to want the function back, once.
func (t *Transport) watchRemoval() error {
	if t.removal != nil {
		return nil
	}
	e, err := port.NewEventFD()
	if err != nil {
		return err
	}
	if err := t.access.announceRemoval(e.FD()); err != nil {
		e.Close()
		if errors.Is(err, port.ErrNotSupported) {
			return nil
		}
		return err
	}
	t.removal = e
	go func() {
		if e.Wait(context.Background()) == nil {
			t.leave()
		}
	}()
	return nil
}

// QueueEvent is what a virtqueue signals, after a SetupQueue that asked for
// interrupts. Without them the error wraps port.ErrNotSupported. A Waiter may
// wake without a cause, where all queues share one interrupt. It ends with the
// next Reset or Close.
func (t *Transport) QueueEvent(index int) (port.Waiter, error) {
	if err := t.use(); err != nil {
		return nil, err
	}
	if t.interrupts != nil {
		if e := t.interrupts.queue(index); e != nil {
			return e, nil
		}
	}
	return nil, t.fail(fmt.Errorf("virtqueue %d was set up without interrupts: %w", index, port.ErrNotSupported))
}

// stopWatching ends the goroutines, those that are in a call of the function
// of Watch aside.
func (t *Transport) stopWatching() error {
	t.changed.Store(nil)
	var errs []error
	if t.interrupts != nil {
		errs = append(errs, t.interrupts.close())
	}
	if t.removal != nil {
		errs = append(errs, t.removal.Close())
	}
	return join(errs...)
}
