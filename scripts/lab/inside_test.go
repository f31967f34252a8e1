package lab

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests of this file run inside a guest; guest_test.go boots it.

// inGuest skips the test on a host.
func inGuest(t *testing.T) {
	t.Helper()
	if os.Getenv("VIONET_GUEST") != "1" {
		t.Skip("runs inside a guest of the lab")
	}
}

// Every function must be bound to vfio-pci and be alone in a group of its own.
func TestInsideBound(t *testing.T) {
	inGuest(t)
	var groups []string
	functions := networkFunctions(t)
	if len(functions) != 2 || filepath.Base(functions[0]) != "0000:00:01.0" || filepath.Base(functions[1]) != "0000:00:02.0" {
		t.Errorf("functions %v, want slots 1 and 2", functions)
	}
	for _, dir := range functions {
		driver, err := os.Readlink(filepath.Join(dir, "driver"))
		if err != nil || filepath.Base(driver) != "vfio-pci" {
			t.Errorf("%s has driver %q, %v", dir, driver, err)
		}
		group, err := os.Readlink(filepath.Join(dir, "iommu_group"))
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, filepath.Base(group))
		if _, err := os.Stat("/dev/vfio/" + filepath.Base(group)); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(groups)
	if len(groups) != 2 || len(slices.Compact(groups)) != 2 {
		t.Errorf("groups %v, want two", groups)
	}
	if free, err := readNumber("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"); free != 16 || err != nil {
		t.Errorf("%d hugepages are free (%v), want 16", free, err)
	}
}

// networkFunctions lists the sysfs directories of virtio network functions.
func networkFunctions(t *testing.T) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		vendor, err := os.ReadFile(filepath.Join(dir, "vendor"))
		if err != nil {
			t.Fatal(err)
		}
		class, err := os.ReadFile(filepath.Join(dir, "class"))
		if err != nil {
			t.Fatal(err)
		}
		if string(vendor) == "0x1af4\n" && string(class) == "0x020000\n" {
			found = append(found, dir)
		}
	}
	return found
}

// The echo ends with the frame that says so.
func TestInsideEcho(t *testing.T) {
	inGuest(t)
	c := openKernelInterface(t)
	defer c.Close()
	for n := 1; ; n++ {
		frames, err := c.WaitFrames(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		frame := frames[n-1]
		if err := c.Send(swapped(frame)); err != nil {
			t.Fatal(err)
		}
		if bytes.HasSuffix(frame, []byte("end")) {
			break
		}
	}
	time.Sleep(100 * time.Millisecond) // the last frame is still on its way out
}

// swapped is the frame with its addresses exchanged.
func swapped(frame []byte) []byte {
	return slices.Concat(frame[6:12], frame[:6], frame[12:])
}

// A datagram is sent with its checksum left to the device.
func TestInsideChecksum(t *testing.T) {
	inGuest(t)
	c := openKernelInterface(t)
	defer c.Close()
	w := c.wire.(packetWire)
	fd := int(w.Fd())
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		t.Fatal(err)
	}
	// struct virtio_net_hdr: flags NEEDS_CSUM, no GSO, csum_start, csum_offset.
	header := make([]byte, 10)
	header[0] = 1
	binary.NativeEndian.PutUint16(header[6:], 14+20)
	binary.NativeEndian.PutUint16(header[8:], 6)
	if err := c.Send(slices.Concat(header, datagramFrame(pseudoSum))); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
}

// The link goes down and comes up again.
func TestInsideLink(t *testing.T) {
	inGuest(t)
	c := openKernelInterface(t)
	defer c.Close()
	for _, want := range []int{0, 1} {
		for carrier := -1; carrier != want; time.Sleep(10 * time.Millisecond) {
			var err error
			if carrier, err = readNumber("/sys/class/net/eth0/carrier"); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Printf("carrier %d\n", want)
	}
}

// openKernelInterface sets the kernel's own interface up and opens it.
func openKernelInterface(t *testing.T) *Cable {
	t.Helper()
	if err := silence(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("eth0")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	ns := &Namespace{file: self}
	defer ns.Close()
	c, err := ns.Open("eth0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("interface is up")
	return c
}
