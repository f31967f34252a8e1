package virtio

import "strings"

// Status is the device status field (section 2.1).
type Status uint8

// The bits of the device status field.
const (
	StatusAcknowledge Status = 1
	StatusDriver      Status = 2
	StatusDriverOK    Status = 4
	StatusFeaturesOK  Status = 8
	StatusNeedsReset  Status = 64
	StatusFailed      Status = 128
)

// Has reports whether every bit of want is in s.
func (s Status) Has(want Status) bool { return s&want == want }

// String gives the names of the bits that are set, or "RESET".
func (s Status) String() string {
	names := []struct {
		bit  Status
		name string
	}{
		{StatusAcknowledge, "ACKNOWLEDGE"},
		{StatusDriver, "DRIVER"},
		{StatusFeaturesOK, "FEATURES_OK"},
		{StatusDriverOK, "DRIVER_OK"},
		{StatusNeedsReset, "DEVICE_NEEDS_RESET"},
		{StatusFailed, "FAILED"},
	}
	var set []string
	for _, n := range names {
		if s.Has(n.bit) {
			set = append(set, n.name)
		}
	}
	if set == nil {
		return "RESET"
	}
	return strings.Join(set, " ")
}
