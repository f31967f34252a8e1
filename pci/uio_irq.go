package pci

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"vionet/port"
)

// uioLine is the interrupt line behind a UIO node. The kernel's driver masks
// it when it fires, with the INTx-disable bit of the command register; reading
// the node waits for the next interrupt.
type uioLine struct {
	device *uioDevice
	node   *os.File
	shared uint16 // the MSI-X vector that igb_uio made a line of, or noVector
}

func (d *uioDevice) openLine() (interruptLine, error) {
	if irq, err := d.tree.read(sysDevices, d.bdf, "irq"); err == nil && irq == "0" {
		return nil, fmt.Errorf("%w: it has none", port.ErrNotSupported)
	}
	config, err := d.config()
	if err != nil {
		return nil, err
	}
	l := &uioLine{device: d, node: d.node, shared: noVector}
	if at := findMSIX(config); at != 0 {
		control, err := d.config16(at + msixControl)
		if err != nil {
			return nil, err
		}
		if control&msixEnable != 0 {
			l.shared = configVector
		}
	}
	return l, nil
}

func (l *uioLine) wait() error {
	var count [4]byte
	_, err := l.node.Read(count[:])
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EIO):
		return fmt.Errorf("%w: the kernel took it from its driver", ErrGone)
	default:
		return fmt.Errorf("wait for the interrupt line: %w", err)
	}
}

func (l *uioLine) unmask() error { return l.device.setCommand(0, commandINTxDisable) }

func (l *uioLine) vector() uint16 { return l.shared }

// close closes the node, which ends a wait.
func (l *uioLine) close() error { return l.node.Close() }
