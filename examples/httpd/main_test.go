package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"vionet/examples/httpd/pages"
	"vionet/scripts/lab"
	"vionet/scripts/lab/inet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDemonstration(t *testing.T) {
	var out bytes.Buffer
	o := options{devices: new([]string), ip: "192.0.2.2/24", port: 80, demo: 10_000_000}
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	if said := out.String(); !strings.HasPrefix(said, "fetched 10000000 bytes in ") {
		t.Errorf("said %q", said)
	}
}

func TestRefuses(t *testing.T) {
	for _, o := range []options{
		{devices: new([]string), ip: "192.0.2.2"},
		{devices: new([]string), ip: "192.0.2.2/24", gateway: "nowhere"},
		{devices: &[]string{"/nowhere/vhost.sock"}, ip: "192.0.2.2/24"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if err := run(ctx, o, new(bytes.Buffer)); err == nil {
			t.Errorf("%+v was taken", o)
		}
		cancel()
	}
}

var (
	hostAddr  = netip.MustParsePrefix("192.0.2.1/24")
	guestAddr = netip.MustParsePrefix("192.0.2.2/24")
	tapMAC    = net.HardwareAddr{2, 0, 0, 0, 0, 7}
)

// The kernel of a namespace fetches from the server, which runs on this machine:
// through a tap and vionet's own vhost-user back end. The memory of the server
// stays what it is.
func TestFetchedThroughBackEnd(t *testing.T) {
	lab.Need(t, "net", "curl", "root")
	dir, err := os.MkdirTemp("", "vionet-httpd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ns, err := lab.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	socket := startBackEnd(t, ns, dir)
	binary, err := lab.Build(t.Context(), dir, "./examples/httpd")
	if err != nil {
		t.Fatal(err)
	}
	server := lab.Spawn(t, binary, "-a", socket, "-ip", guestAddr.String())
	if _, err := server.Expect(t.Context(), "serving http://"); err != nil {
		t.Fatal(err)
	}

	if text := curl(t, ns, fmt.Sprintf("http://%v/", guestAddr.Addr())); !strings.Contains(text, "Good morning, 192.0.2.1:") {
		t.Errorf("the greeting is %q", text)
	}
	const large, small, connections = 100_000_000, 200_000, 64
	rate := curl(t, ns, "-o", filepath.Join(dir, "page"), "-w", "%{speed_download}", fmt.Sprintf("http://%v/bytes/%d", guestAddr.Addr(), large))
	compare(t, filepath.Join(dir, "page"), large)
	bytesPerSecond, _ := strconv.ParseFloat(rate, 64)
	t.Logf("%d bytes at %.2f Gb/s", large, bytesPerSecond*8/1e9)

	var resident []int
	for range 4 {
		curl(t, ns, "--parallel", "--parallel-immediate", "--parallel-max", strconv.Itoa(connections), "-o", filepath.Join(dir, "page#1"),
			fmt.Sprintf("http://%v/bytes/%d?[1-%d]", guestAddr.Addr(), small, connections))
		for i := range connections {
			compare(t, filepath.Join(dir, "page"+strconv.Itoa(i+1)), small)
		}
		resident = append(resident, residentSize(t, server.Pid()))
	}
	t.Logf("resident after each round of %d connections: %d KiB", connections, resident)
	// The first rounds fill the stack's pools of buffers.
	if first, last := resident[1], resident[len(resident)-1]; last > first+first/4 {
		t.Errorf("the server grew from %d to %d KiB", first, last)
	}
	if err := server.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status, err := server.Wait(t.Context()); status != 0 || err != nil {
		t.Errorf("the server ended with %d, %v", status, err)
	}
}

// startBackEnd starts a console that forwards between a vhost-user back end and a
// tap in the namespace, and gives the back end's socket.
func startBackEnd(t *testing.T, ns *lab.Namespace, dir string) (socket string) {
	t.Helper()
	vionet, err := lab.Build(t.Context(), dir, "./cmd/vionet")
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "vhost.sock")
	console := lab.SpawnIn(t, ns, vionet, "testpmd", "--no-pci", "--no-huge", "--vdev", "net_vhost0,iface="+socket,
		"--vdev", fmt.Sprintf("net_tap0,iface=tap0,mac=%v", tapMAC), "--", "-i", "--mask-event=intr_lsc", "--poll-mode=adaptive")
	if _, err := console.Expect(t.Context(), lab.Prompt); err != nil {
		t.Fatal(err)
	}
	if err := ns.Do(func() error { return inet.Configure("tap0", hostAddr) }); err != nil {
		t.Fatal(err)
	}
	lab.Command(t, console.Console, "start")
	return socket
}

// curl runs curl in the namespace and gives what it says.
func curl(t *testing.T, ns *lab.Namespace, arguments ...string) string {
	t.Helper()
	text, err := ns.Output(t.Context(), append([]string{"curl", "-sS", "--fail", "--max-time", "120"}, arguments...)...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// compare wants the file to hold /bytes/size.
func compare(t *testing.T, name string, size int64) {
	t.Helper()
	if err := pages.Compare(name, size); err != nil {
		t.Error(err)
	}
}

// residentSize is the memory of a process that is really there, in KiB.
func residentSize(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}
