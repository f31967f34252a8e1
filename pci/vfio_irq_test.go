package pci

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"vionet/port"
)

func openFakeDevice(t *testing.T, v *fakeVFIO) *vfioDevice {
	t.Helper()
	_, tree := vfioTree(t)
	d, err := newVFIOContainer(v).open(tree, function(t, tree, "0000:00:01.0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close() })
	return d
}

// All vectors are enabled in one call, since their number can't grow, and get
// their eventfds later.
func TestVFIOVectors(t *testing.T) {
	const trigger = vfioIRQEventFD | vfioIRQTrigger
	for _, tt := range []struct {
		name        string
		have, fewer int
		want        int
		sets        []irqSet
	}{
		{"as many as wanted", 9, 0, 3, []irqSet{{2, trigger, 0, []int{-1, -1, -1}}}},
		{"as many as there are", 2, 0, 2, []irqSet{{2, trigger, 0, []int{-1, -1}}}},
		{"none", 0, 0, 0, nil},
		{"the kernel is short of them", 3, 1, 1, []irqSet{{2, trigger, 0, []int{-1}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newFakeVFIO(t)
			v.irqs, v.fewer = map[int]int{vfioMSIX: tt.have}, tt.fewer
			d := openFakeDevice(t, v)
			n, err := d.enableVectors(3)
			if n != tt.want || err != nil {
				t.Errorf("%d vectors, %v; want %d", n, err, tt.want)
			}
			if diff := cmp.Diff(tt.sets, v.irqSets); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	v := newFakeVFIO(t)
	d := openFakeDevice(t, v)
	if err := d.route(2, 77); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]irqSet{{2, trigger, 2, []int{77}}}, v.irqSets); diff != "" {
		t.Errorf("route (-want +got)\n%s", diff)
	}
}

func TestVFIOLine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	v := newFakeVFIO(t)
	d := openFakeDevice(t, v)
	if _, err := d.openLine(); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("a function without a line: %v", err)
	}
	v.irqs = map[int]int{vfioINTx: 1}
	l, err := d.openLine()
	if err != nil {
		t.Fatal(err)
	}
	if command, err := d.config16(cfgCommand); err != nil || command&commandINTxDisable != 0 {
		t.Errorf("PCI command %#x, %v: the line is still disabled", command, err)
	}
	if err := l.unmask(); err != nil {
		t.Error(err)
	}
	want := []irqSet{
		{0, vfioIRQEventFD | vfioIRQTrigger, 0, []int{l.(*vfioLine).event.FD()}},
		{0, vfioIRQNone | vfioIRQUnmask, 0, nil},
	}
	if diff := cmp.Diff(want, v.irqSets); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	done := make(chan error)
	go func() {
		err := l.wait()
		done <- join(err, l.wait())
	}()
	signal(t, want[0].FDs[0])
	if err := l.close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, port.ErrClosed) {
		t.Errorf("wait after close: %v", err)
	}
}

func TestVFIORemoval(t *testing.T) {
	v := newFakeVFIO(t)
	d := openFakeDevice(t, v)
	if err := d.announceRemoval(5); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("a kernel that announces nothing: %v", err)
	}
	v.irqs = map[int]int{vfioRequest: 1}
	if err := d.announceRemoval(5); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]irqSet{{4, vfioIRQEventFD | vfioIRQTrigger, 0, []int{5}}}, v.irqSets); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The structures are those of linux/vfio.h; a call that can't reach a device
// is an error and not a count.
func TestVFIOIRQCalls(t *testing.T) {
	if n, err := (kernelVFIO{}).irqCount(-1, vfioMSIX); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := (kernelVFIO{}).setIRQs(-1, vfioMSIX, vfioIRQEventFD|vfioIRQTrigger, 0, []int{-1}); n != 0 || err == nil || strings.Contains(err.Error(), "fault") {
		t.Errorf("%d, %v", n, err)
	}
}
