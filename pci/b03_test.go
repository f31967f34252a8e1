package pci

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/pci/pcitest"
)

// noIOMMUTree is vfioTree with the first function's group in no-IOMMU mode.
func noIOMMUTree(t *testing.T) (*pcitest.Kernel, Tree) {
	t.Helper()
	k, tree := vfioTree(t)
	if err := os.Rename(k.Root+"/dev/vfio/1", k.Root+"/dev/vfio/noiommu-1"); err != nil {
		t.Fatal(err)
	}
	return k, tree
}

// Without an IOMMU the group's node has another name, nothing is mapped and
// addresses are physical, with a warning.
func TestB03NoIOMMU(t *testing.T) {
	_, tree := noIOMMUTree(t)
	v := newFakeVFIO(t)
	c := newVFIOContainer(v)
	var log bytes.Buffer
	tr, err := open(c, tree, "0000:00:01.0", Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "no IOMMU isolates the device") {
		t.Errorf("log %q has no warning", log.String())
	}
	if got := tr.Addressing().Mode; got != mbuf.IOVAPhysical {
		t.Errorf("addressing %v, want physical", got)
	}
	if got, err := tr.access.translated(); err != nil || got.Mode != mbuf.IOVAPhysical {
		t.Errorf("addressing %+v, %v under ACCESS_PLATFORM, want physical", got, err)
	}
	if err := tr.access.mapDMA([]mbuf.Region{{Bytes: make([]byte, 4096), IOVA: 0x1000}}); err != nil {
		t.Error(err)
	}
	if slices.Contains(v.calls, "map") {
		t.Error("memory was mapped without an IOMMU")
	}
	if !slices.Contains(v.calls, "iommu 8") {
		t.Errorf("calls %v, want IOMMU type 8", v.calls)
	}
	if _, err := c.open(tree, function(t, tree, "0000:00:02.0")); err == nil || !strings.Contains(err.Error(), "two processes") {
		t.Errorf("a function with an IOMMU in the same container: %v", err)
	}
}

// What keeps a function without an IOMMU from being opened is named, and its
// driver stays as it was.
func TestB03NoIOMMURefused(t *testing.T) {
	const parameter = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
	ungroup := func(k *pcitest.Kernel) { os.Remove(k.Root + "/sys/bus/pci/devices/0000:00:01.0/iommu_group") }
	for _, tt := range []struct {
		name   string
		change func(k *pcitest.Kernel, v *fakeVFIO)
		err    error
		texts  []string
	}{
		{
			name:   "both nodes absent",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) { os.Remove(k.Root + "/dev/vfio/noiommu-1") },
			err:    fs.ErrNotExist, texts: []string{"IOMMU group 1", "dev/vfio/1", "dev/vfio/noiommu-1"},
		},
		{
			name: "no group, and the mode is off",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) {
				ungroup(k)
				k.WriteFile(parameter, "N\n")
			},
			err: ErrNoIOMMU, texts: []string{"no IOMMU group", "write Y to " + parameter},
		},
		{
			name:   "no group, and a kernel without the mode",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) { ungroup(k) },
			err:    ErrNoIOMMU, texts: []string{"no IOMMU group", "VFIO_NOIOMMU"},
		},
		{
			name: "no group, because the mode was off at binding",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) {
				ungroup(k)
				k.WriteFile(parameter, "Y\n")
			},
			err: ErrNoIOMMU, texts: []string{"bind it again"},
		},
		{
			name:   "without the capability",
			change: func(_ *pcitest.Kernel, v *fakeVFIO) { v.failAt, v.err = 4, unix.EPERM },
			err:    unix.EPERM, texts: []string{"CAP_SYS_RAWIO"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, tree := noIOMMUTree(t)
			v := newFakeVFIO(t)
			tt.change(k, v)
			before := openFDs(t)
			_, err := open(newVFIOContainer(v), tree, "0000:00:01.0", Options{})
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			for _, text := range tt.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %v, want one with %q", err, text)
				}
			}
			if driver := k.DriverOf("0000:00:01.0"); driver != DriverVFIO {
				t.Errorf("the function has driver %q", driver)
			}
			if len(k.Writes) > 0 {
				t.Errorf("wrote %v", k.Writes)
			}
			if after := openFDs(t); len(after) != len(before) {
				t.Errorf("file descriptors %v, before %v", after, before)
			}
		})
	}
}
