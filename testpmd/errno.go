package testpmd

import (
	"errors"

	"golang.org/x/sys/unix"

	"vionet/port"
)

// complaint is an error in testpmd's own words.
type complaint string

func (c complaint) Error() string { return string(c) }

var (
	errNoPort   = errors.New("no such device")
	errForwards = errors.New("please stop forwarding first")
)

// errno is the number that testpmd's answers have for an error of a port.
func errno(err error) int {
	for _, e := range []struct {
		err   error
		errno unix.Errno
	}{
		{errNoPort, unix.ENODEV}, {port.ErrClosed, unix.ENODEV}, {port.ErrInvalid, unix.EINVAL},
		{errForwards, unix.EBUSY}, {port.ErrNotSupported, unix.EOPNOTSUPP}, {port.ErrState, unix.EOPNOTSUPP},
	} {
		if errors.Is(err, e.err) {
			return int(e.errno)
		}
	}
	return int(unix.EIO)
}

// errnoTexts are the texts of the numbers that errno gives, as C has them.
var errnoTexts = map[int]string{
	int(unix.ENODEV): "No such device", int(unix.EINVAL): "Invalid argument",
	int(unix.EBUSY): "Device or resource busy", int(unix.EOPNOTSUPP): "Operation not supported", int(unix.EIO): "Input/output error",
}

// errnoText is the text of errno(err).
func errnoText(err error) string { return errnoTexts[errno(err)] }

// errText is the text of an error as testpmd has it where there is one.
func errText(err error) string {
	if errors.Is(err, port.ErrNotSupported) {
		return "Operation not supported"
	}
	return err.Error()
}
