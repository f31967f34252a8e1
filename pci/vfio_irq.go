package pci

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"vionet/port"
)

// enableVectors enables MSI-X with vectors that signal nobody yet. Their
// number can't grow afterwards.
func (d *vfioDevice) enableVectors(want int) (int, error) {
	calls := d.container.calls
	have, err := calls.irqCount(d.fd, vfioMSIX)
	if err != nil {
		return 0, fmt.Errorf("count the MSI-X vectors: %w", err)
	}
	for n := min(have, want); n > 0; {
		fds := make([]int, n)
		for i := range fds {
			fds[i] = -1
		}
		fewer, err := calls.setIRQs(d.fd, vfioMSIX, vfioIRQEventFD|vfioIRQTrigger, 0, fds)
		switch {
		case err != nil:
			return 0, fmt.Errorf("enable %d MSI-X vectors: %w", n, err)
		case fewer <= 0:
			return n, nil
		}
		n = min(fewer, n-1) // the kernel is short of them
	}
	return 0, nil
}

func (d *vfioDevice) route(vector, eventfd int) error {
	_, err := d.container.calls.setIRQs(d.fd, vfioMSIX, vfioIRQEventFD|vfioIRQTrigger, vector, []int{eventfd})
	if err != nil {
		return fmt.Errorf("MSI-X vector %d: %w", vector, err)
	}
	return nil
}

// announceRemoval takes the interrupt that is no interrupt of the function:
// the kernel waits with the removal until the function is closed.
func (d *vfioDevice) announceRemoval(eventfd int) error {
	calls := d.container.calls
	n, err := calls.irqCount(d.fd, vfioRequest)
	if n == 0 || errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("announcement of a removal: %w by this kernel", port.ErrNotSupported)
	}
	if err == nil {
		_, err = calls.setIRQs(d.fd, vfioRequest, vfioIRQEventFD|vfioIRQTrigger, 0, []int{eventfd})
	}
	if err != nil {
		return fmt.Errorf("announcement of a removal: %w", err)
	}
	return nil
}

// vfioLine is the interrupt line behind an eventfd. The kernel masks it when
// it fires.
type vfioLine struct {
	device *vfioDevice
	event  *port.EventFD
}

func (d *vfioDevice) openLine() (interruptLine, error) {
	n, err := d.container.calls.irqCount(d.fd, vfioINTx)
	if err != nil {
		return nil, fmt.Errorf("look for it: %w", err)
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: it has none", port.ErrNotSupported)
	}
	e, err := port.NewEventFD()
	if err != nil {
		return nil, err
	}
	_, err = d.container.calls.setIRQs(d.fd, vfioINTx, vfioIRQEventFD|vfioIRQTrigger, 0, []int{e.FD()})
	if err == nil {
		err = d.setCommand(0, commandINTxDisable)
	}
	if err != nil {
		return nil, join(fmt.Errorf("enable it: %w", err), e.Close())
	}
	return &vfioLine{device: d, event: e}, nil
}

func (l *vfioLine) wait() error { return l.event.Wait(context.Background()) }

func (l *vfioLine) unmask() error {
	_, err := l.device.container.calls.setIRQs(l.device.fd, vfioINTx, vfioIRQNone|vfioIRQUnmask, 0, nil)
	if err != nil {
		return fmt.Errorf("unmask the interrupt line: %w", err)
	}
	return nil
}

func (l *vfioLine) vector() uint16 { return noVector }

func (l *vfioLine) close() error { return l.event.Close() }
