package driver

import (
	"errors"
	"fmt"

	"vionet/port"
	"vionet/virtio"
)

// ErrFeaturesRefused is wrapped by the error of a Start whose device did not
// accept the negotiated features (virtio 1.2, section 3.1.1, step 6).
var ErrFeaturesRefused = errors.New("the device refused the features")

// FeatureError says that the application asked for what the device does not
// offer. It matches port.ErrNotSupported.
type FeatureError struct {
	Asked   string          // what was asked for
	Missing virtio.Features // the bits that the device lacks
}

func (e *FeatureError) Error() string {
	return fmt.Sprintf("%s needs %v, which the device does not offer: do without, or have the host offer it", e.Asked, e.Missing)
}

// Is makes the error match port.ErrNotSupported.
func (e *FeatureError) Is(target error) bool { return target == port.ErrNotSupported }

// ConflictError says that the application asked for two things of which each rules
// out the other, whatever the device has. It matches port.ErrInvalid.
type ConflictError struct {
	Wish, Against string // by the names of the options or offloads
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s and %s rule each other out: leave one of them out", e.Wish, e.Against)
}

// Is makes the error match port.ErrInvalid.
func (e *ConflictError) Is(target error) bool { return target == port.ErrInvalid }
