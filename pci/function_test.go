package pci

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/pci/pcitest"
)

func TestParseBDF(t *testing.T) {
	for in, want := range map[string]string{
		"0000:00:01.0":  "0000:00:01.0",
		"00:01.0":       "0000:00:01.0",
		"0:1.7":         "0000:00:01.7",
		"0000:AB:1F.3":  "0000:ab:1f.3",
		"10000:e1:00.0": "10000:e1:00.0",
		"1:ff:1f.7":     "0001:ff:1f.7",
	} {
		got, err := ParseBDF(in)
		if err != nil || got != want {
			t.Errorf("ParseBDF(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "eth0", "00:01", "00:01.8", "00:20.0", "100:00.0", "0000:00:01.0 ", "123456789:00:01.0", "00:01.0/../x", "-1:00.0"} {
		if got, err := ParseBDF(in); err == nil || got != "" {
			t.Errorf("ParseBDF(%q) = %q, %v; want an error", in, got, err)
		}
	}
}

func FuzzParseBDF(f *testing.F) {
	for _, s := range []string{"0000:00:01.0", "00:1f.7", "eth0", "ffffffff:ff:1f.7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once, err := ParseBDF(s)
		if err != nil {
			return
		}
		if twice, err := ParseBDF(once); err != nil || twice != once {
			t.Fatalf("ParseBDF(%q) = %q, and of that %q, %v", s, once, twice, err)
		}
		if strings.Contains(once, "/") {
			t.Fatalf("ParseBDF(%q) = %q is no name of a directory", s, once)
		}
	})
}

func TestFunctions(t *testing.T) {
	k := pcitest.New(t)
	k.Add(pcitest.Function{BDF: "0000:00:02.0", Vendor: 0x1af4, Device: 0x1041, Driver: "vfio-pci", Group: 7})
	k.Add(pcitest.Function{BDF: "0000:00:01.0", Vendor: 0x1af4, Device: 0x1000, Driver: "virtio-pci", Interface: "eth0"})
	k.Add(pcitest.Function{BDF: "0001:3b:00.1", Vendor: 0x8086, Device: 0x100e, Group: 8})
	k.Add(pcitest.Function{BDF: "0000:00:1f.0", Vendor: 0xf1f7, Device: 0x1041, Class: 0x060100})
	k.WriteFile("sys/bus/pci/devices/0001:3b:00.1/numa_node", "1\n")
	k.WriteFile("sys/bus/pci/devices/lost+found/x", "")
	got, err := Tree{Root: k.Root}.Functions()
	if err != nil {
		t.Fatal(err)
	}
	want := []Function{
		{BDF: "0000:00:01.0", Vendor: 0x1af4, Device: 0x1000, Class: 0x020000, VendorName: "Red Hat, Inc.", DeviceName: "Virtio network device", Driver: "virtio-pci", Group: -1, Interfaces: []string{"eth0"}, NUMANode: -1},
		{BDF: "0000:00:02.0", Vendor: 0x1af4, Device: 0x1041, Class: 0x020000, VendorName: "Red Hat, Inc.", DeviceName: "Virtio 1.0 network device", Driver: "vfio-pci", Group: 7, NUMANode: -1},
		{BDF: "0000:00:1f.0", Vendor: 0xf1f7, Device: 0x1041, Class: 0x060100, VendorName: "f1f7", DeviceName: "1041", Group: -1, NUMANode: -1},
		{BDF: "0001:3b:00.1", Vendor: 0x8086, Device: 0x100e, Class: 0x020000, VendorName: "Intel Corporation", DeviceName: "82540EM Gigabit Ethernet Controller", Group: 8, NUMANode: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for i, isNet := range []bool{true, true, false, false} {
		if got[i].IsVirtioNet() != isNet {
			t.Errorf("%s: IsVirtioNet is %v", got[i].BDF, !isNet)
		}
	}
}

func TestFunctionsWithoutPCI(t *testing.T) {
	if got, err := (Tree{Root: t.TempDir()}).Functions(); err != nil || got != nil {
		t.Errorf("got %v, %v; want nothing", got, err)
	}
}

// A function that goes away in the middle of a scan is left out; one that
// can't be understood is an error that names it.
func TestFunctionsBroken(t *testing.T) {
	k := pcitest.New(t)
	k.Add(pcitest.Function{BDF: "0000:00:01.0", Vendor: 0x1af4, Device: 0x1041})
	k.Add(pcitest.Function{BDF: "0000:00:02.0", Vendor: 0x1af4, Device: 0x1041})
	if err := os.Remove(k.Root + "/sys/bus/pci/devices/0000:00:01.0/vendor"); err != nil {
		t.Fatal(err)
	}
	tree := Tree{Root: k.Root}
	if got, err := tree.Functions(); err != nil || len(got) != 1 || got[0].BDF != "0000:00:02.0" {
		t.Errorf("got %v, %v; want the second one only", got, err)
	}
	k.WriteFile("sys/bus/pci/devices/0000:00:02.0/class", "network")
	if _, err := tree.Functions(); err == nil || !strings.Contains(err.Error(), "0000:00:02.0") {
		t.Errorf("error %v, want one with the address", err)
	}
	if _, err := tree.Function("00:03.0"); !errors.Is(err, ErrNoFunction) {
		t.Errorf("error %v, want ErrNoFunction", err)
	}
}
