package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/scripts/lab"
)

// The dialogue that scripts made for DPDK's testpmd hold: offloads change
// between port stop and port start, and the transmit path follows. MAC is
// whatever the device has.
var dialogue = []struct{ command, answer string }{
	{"port start 0", `
virtio: using mergeable buffer Rx path on port 0
virtio: using simple Tx path on port 0
Port 0: MAC
Checking link statuses...
Done
`},
	{"show port 0 tx_offload capabilities", `
Tx Offloading Capabilities of port 0 :
  Per Queue :
  Per Port  : VLAN_INSERT UDP_CKSUM TCP_CKSUM TCP_TSO MULTI_SEGS

`},
	{"show port 0 tx_offload configuration", `
Tx Offloading Configuration of port 0 :
  Port :
  Queue[ 0] :

`},
	{"port stop 0", `
Stopping ports...
Checking link statuses...
Done
`},
	{"csum set tcp hw 0", `
Parse tunnel is off
IP checksum offload is sw
UDP checksum offload is sw
TCP checksum offload is hw
SCTP checksum offload is sw
Outer-Ip checksum offload is sw
Outer-Udp checksum offload is sw
`},
	{"port start 0", `
Configuring Port 0 (socket 0)
virtio: using mergeable buffer Rx path on port 0
virtio: using standard Tx path on port 0
Port 0: MAC
Checking link statuses...
Done
`},
	{"show port 0 tx_offload configuration", `
Tx Offloading Configuration of port 0 :
  Port : TCP_CKSUM
  Queue[ 0] : TCP_CKSUM

`},
}

var macAddress = regexp.MustCompile(`([0-9A-F]{2}:){5}[0-9A-F]{2}`)

// holdDialogue stops the port, which was started with the console, and holds
// the dialogue.
func holdDialogue(t *testing.T, c *lab.Console) {
	t.Helper()
	if _, err := c.Expect(t.Context(), lab.Prompt); err != nil {
		t.Fatal(err)
	}
	lab.Command(t, c, "port stop 0")
	for _, d := range dialogue {
		got := macAddress.ReplaceAllString(lab.Command(t, c, d.command), "MAC")
		if diff := cmp.Diff(strings.TrimPrefix(d.answer, "\n"), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d.command, diff)
		}
	}
}

// quit ends the console and wants exit status 0.
func quit(t *testing.T, p *lab.Process) {
	t.Helper()
	if err := p.Send("quit"); err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(t.Context()); status != 0 || err != nil {
		t.Errorf("exit status %d, %v", status, err)
	}
}

// vionet is the static program, built once for all tests.
func vionet(t *testing.T) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := lab.CacheDir()
	if err != nil {
		return "", err
	}
	return lab.Build(context.Background(), dir, "vionet/cmd/vionet")
})

func TestDialogueOnTheEmbeddedDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program; skipped by -short")
	}
	p := lab.Spawn(t, vionet(t), "testpmd", "--no-pci", "--", "-i")
	holdDialogue(t, p.Console)
	quit(t, p)
}

func TestDialogueOnDPDKVhost(t *testing.T) {
	lab.Need(t, "dpdk")
	socket := filepath.Join(t.TempDir(), "vhost.sock")
	host := lab.Testpmd(t, lab.DPDK{Vdevs: []string{"net_vhost0,iface=" + socket + ",tso=1"}})
	p := lab.Spawn(t, vionet(t), "testpmd", "--no-pci", "--vdev", "net_virtio_user0,path="+socket, "--", "-i")
	holdDialogue(t, p.Console)
	if said := host.Transcript(); !strings.Contains(said, "virtio is now ready for processing") {
		t.Error("DPDK's back end never became ready")
	}
	quit(t, p)
}

// guestMAC is the address of the guest's function.
var guestMAC = []byte{0x52, 0x54, 0x00, 0x58, 0xd7, 0x01}

// bootConsole boots a guest whose one function is bound to vfio-pci and plugged
// into a tap, with the console on it.
func bootConsole(t *testing.T, options []string, arguments ...string) (*lab.Guest, *lab.Cable) {
	t.Helper()
	lab.Need(t, "qemu", "net", "root")
	cable, ns := newCable(t, 1)
	g := lab.Boot(t, lab.Config{
		Program:   append([]string{"/bin/vionet", "testpmd", "--", "-i"}, arguments...),
		Files:     map[string]string{"/bin/vionet": vionet(t)},
		NICs:      []lab.NIC{{Net: cable.Net, MAC: "52:54:00:58:d7:01", Options: options}},
		Namespace: ns,
	})
	return g, cable
}

func TestDialogueInTheGuest(t *testing.T) {
	g, cable := bootConsole(t, nil)
	holdDialogue(t, g.Console)
	checkForwardedChecksum(t, g, cable)
	checkGeneratedFrames(t, g, cable)
	quit(t, g.Process)
}

// TestGuestWithoutAccessPlatform drives a device that goes around the IOMMU, and
// so wants physical addresses.
func TestGuestWithoutAccessPlatform(t *testing.T) {
	g, cable := bootConsole(t, []string{"iommu_platform=off"}, "--total-num-mbufs=4096")
	if _, err := g.Expect(t.Context(), lab.Prompt); err != nil {
		t.Fatal(err)
	}
	checkGeneratedFrames(t, g, cable)
	quit(t, g.Process)
}

// checkForwardedChecksum sends TCP segments with a wrong checksum through the
// guest's csum mode, which leaves it to the device, and wants them back with
// the right one.
func checkForwardedChecksum(t *testing.T, g *lab.Guest, cable *lab.Cable) {
	t.Helper()
	lab.Command(t, g.Console, "set fwd csum")
	lab.Command(t, g.Console, "start")
	const segments = 5
	for i := range segments {
		if err := cable.Send(tcpSegment(100*i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	frames, err := cable.WaitFrames(t.Context(), segments)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range frames[:segments] {
		want := tcpSegment(100*i + 1)
		copy(want, []byte{2, 0, 0, 0, 0, 0})
		copy(want[6:], guestMAC)
		binary.BigEndian.PutUint16(want[50:], tcpChecksum(want))
		if !bytes.Equal(f, want) {
			t.Errorf("segment %d came back as\n% x\nwant\n% x", i, f[:54], want[:54])
		}
	}
	lab.Command(t, g.Console, "stop")
	// The path chosen shows in the reasons, too.
	if got := lab.Command(t, g.Console, "show port 0 path"); !strings.Contains(got, "Tx offloads are on: TCP_CKSUM") {
		t.Errorf("show port 0 path:\n%s", got)
	}
}

// checkGeneratedFrames lets the guest send and compares the bytes with those
// of testpmd's generator. It returns how many the guest counted.
func checkGeneratedFrames(t *testing.T, g *lab.Guest, cable *lab.Cable) int {
	t.Helper()
	lab.Command(t, g.Console, "set fwd txonly")
	seen := len(cable.Frames())
	lab.Command(t, g.Console, "start")
	frames, err := cable.WaitFrames(t.Context(), seen+100)
	if err != nil {
		t.Fatal(err)
	}
	answer := lab.Command(t, g.Console, "stop")
	lines := sentPackets.FindAllStringSubmatch(answer, -1)
	if lines == nil {
		t.Fatalf("stop counted nothing:\n%s", answer)
	}
	counted, err := strconv.Atoi(lines[len(lines)-1][1]) // the sum of all queues stands last
	if err != nil || counted < 100 {
		t.Errorf("%d packets counted, 100 seen", counted)
	}
	for _, f := range frames[seen : seen+100] {
		if len(f) != 64 || !bytes.Equal(f[:42], generatedHeaders) {
			t.Fatalf("generated frame of %d bytes\n% x\nwant headers\n% x", len(f), f, generatedHeaders)
		}
	}
	return counted
}

// generatedHeaders are the headers of a txonly frame of 64 bytes: Ethernet
// from the port to 02:00:00:00:00:00; IPv4 198.18.0.1 to 198.18.0.2, 50 bytes,
// TTL 64, header checksum 0xee93; UDP port 9 to 9, 30 bytes, no
// checksum.
var generatedHeaders = []byte{
	0x02, 0, 0, 0, 0, 0, 0x52, 0x54, 0x00, 0x58, 0xd7, 0x01, 0x08, 0x00,
	0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0xee, 0x93, 198, 18, 0, 1, 198, 18, 0, 2,
	0, 9, 0, 9, 0, 30, 0, 0,
}

// tcpSegment makes a TCP segment to the guest with n bytes of payload and the
// wrong checksum 0xdead.
func tcpSegment(n int) []byte {
	f := append([]byte{}, guestMAC...)
	f = append(f, 2, 0, 0, 0, 0, 9, 0x08, 0x00)
	ip := []byte{0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}
	binary.BigEndian.PutUint16(ip[2:], uint16(40+n))
	binary.BigEndian.PutUint16(ip[10:], rfc1071(ip))
	f = append(f, ip...)
	f = append(f, 0x1f, 0x90, 0xc0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0xde, 0xad, 0, 0)
	for i := range n {
		f = append(f, byte(i))
	}
	return f
}

// tcpChecksum is the right TCP checksum of a frame of tcpSegment.
func tcpChecksum(f []byte) uint16 {
	segment := bytes.Clone(f[34:])
	segment[16], segment[17] = 0, 0
	pseudo := bytes.Clone(f[26:34])
	pseudo = append(pseudo, 0, 6)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(segment)))
	return rfc1071(append(pseudo, segment...))
}

// rfc1071 is the internet checksum of b.
func rfc1071(b []byte) uint16 {
	sum := uint32(0)
	for i, v := range b {
		if i%2 == 0 {
			sum += uint32(v) << 8
		} else {
			sum += uint32(v)
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
