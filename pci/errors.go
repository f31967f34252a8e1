package pci

import (
	"strings"

	"vionet/port"
)

// ErrGone is wrapped when the device was removed, or when the kernel asked for
// it back. Close the transport then; there is nothing else to do with it.
var ErrGone = port.ErrGone

// joined are several errors on one line.
type joined []error

// join is errors.Join for one line: an error of a step, and those of putting
// things back after it.
func join(errs ...error) error {
	var all joined
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	default:
		return all
	}
}

func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (j joined) Unwrap() []error { return j }
