package ring

import "testing"

// What one side writes shares no cache line with what the other does, in a ring of any
// size. Descriptors of a packed virtqueue are written by both, in turn.
func TestSidesShareNoLine(t *testing.T) {
	const line = 64
	for size := 1; size <= MaxSize; size *= 2 {
		s, err := NewSplitLayout(size)
		if err != nil {
			t.Fatal(err)
		}
		if s.UsedOff%line != 0 || s.UsedOff < s.AvailOff+s.AvailLen {
			t.Errorf("split virtqueue of %d: the device's area begins at %d, the driver's end at %d", size, s.UsedOff, s.AvailOff+s.AvailLen)
		}
		for _, size := range []int{size, size + size/3} {
			if size > MaxSize {
				continue
			}
			p, err := NewPackedLayout(size)
			if err != nil {
				t.Fatal(err)
			}
			if p.DriverOff%line != 0 || p.DriverOff < p.DescLen() || p.DeviceOff-p.DriverOff < line || p.Total-p.DeviceOff < line {
				t.Errorf("packed virtqueue of %d: descriptors to %d, events at %d and %d of %d", size, p.DescLen(), p.DriverOff, p.DeviceOff, p.Total)
			}
		}
	}
}
