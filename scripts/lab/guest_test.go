package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/scripts/lab/job"
)

const thisPackage = "vionet/scripts/lab"

func TestGuestBindsFunctions(t *testing.T) {
	RunTests(t, thisPackage, "^TestInsideBound$", Config{
		NICs:      []NIC{{Net: Hub(0)}, {Net: Hub(0)}},
		Hugepages: 16,
	})
}

func TestGuestReportsWhatWentWrong(t *testing.T) {
	Need(t, "qemu")
	for _, c := range []struct {
		name   string
		cfg    Config
		status int
		said   string
	}{
		{
			name:   "no such program",
			cfg:    Config{Program: []string{"/bin/none"}, Driver: "none"},
			status: job.InitFailed,
			said:   "/bin/none: no such file or directory",
		},
		{
			name: "vfio without an IOMMU",
			cfg: Config{
				Program: []string{"/bin/none"}, NoIOMMU: true,
				NICs: []NIC{{Net: Hub(0)}, {Net: Hub(0)}},
			},
			status: job.InitFailed,
			said:   "vfio-pci",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Boot(t, c.cfg)
			status, err := g.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if status != c.status || !strings.Contains(g.Transcript(), c.said) {
				t.Errorf("exit status %d, want %d; %q is to be said", status, c.status, c.said)
			}
		})
	}
}

func TestGuestDiesWithItsContext(t *testing.T) {
	Need(t, "qemu")
	ctx, cancel := context.WithCancel(t.Context())
	g, err := Start(ctx, Config{Program: []string{"/bin/none"}, Driver: "none"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	cancel()
	if _, err := g.Wait(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("a guest whose context ended: %v", err)
	}
}

func TestGuestDiesWhenItsTimeIsOver(t *testing.T) {
	Need(t, "qemu")
	g := Boot(t, Config{Program: []string{"/bin/none"}, Driver: "none", Timeout: 100 * time.Millisecond})
	if _, err := g.Wait(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a guest whose time is over: %v", err)
	}
}

// kernelGuest is a guest whose function belongs to the kernel's own driver,
// which runs one of the tests of inside_test.go.
func kernelGuest(t *testing.T, run string, nic NIC, ns *Namespace) *Guest {
	t.Helper()
	binary, err := BuildTest(t.Context(), t.TempDir(), thisPackage)
	if err != nil {
		t.Fatal(err)
	}
	g := Boot(t, Config{
		Program:   []string{"/bin/test", "-test.run=" + run},
		Env:       []string{"VIONET_GUEST=1"},
		Files:     map[string]string{"/bin/test": binary},
		NICs:      []NIC{nic},
		Driver:    "none",
		Modules:   VirtioModules,
		Namespace: ns,
	})
	if _, err := g.Expect(t.Context(), "interface is up\n"); err != nil {
		t.Fatal(err)
	}
	return g
}

// ended fails the test unless the guest's program ended well.
func ended(t *testing.T, g *Guest) {
	t.Helper()
	if status, err := g.Wait(t.Context()); status != 0 || err != nil {
		t.Fatalf("the guest's program ended with %d, %v", status, err)
	}
}

func TestGuestOnDatagramCable(t *testing.T) {
	Need(t, "qemu")
	c, err := NewCable(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g := kernelGuest(t, "^TestInsideEcho$", NIC{Net: c.Net}, nil)
	var want [][]byte
	for _, text := range []string{"one", "two", "end"} {
		frame := slices.Concat(unicastMAC, testMAC, []byte{0x88, 0xb5}, bytes.Repeat([]byte{'.'}, 60), []byte(text))
		if err := c.Send(frame); err != nil {
			t.Fatal(err)
		}
		want = append(want, swapped(frame))
	}
	got, err := c.WaitFrames(t.Context(), len(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("echo (-want +got):\n%s", diff)
	}
	ended(t, g)
}

func TestGuestOnTapHasChecksumsFilledIn(t *testing.T) {
	Need(t, "qemu", "net", "root")
	ns, err := NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	c, err := ns.Cable("tap0", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g := kernelGuest(t, "^TestInsideChecksum$", NIC{Net: c.Net}, ns)
	got, err := c.WaitFrames(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]byte{datagramFrame(wholeSum)}, got); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}
	ended(t, g)
}

func TestGuestOnVhostUser(t *testing.T) {
	Need(t, "qemu", "dpdk")
	socket := filepath.Join(t.TempDir(), "vhost.sock")
	host := Testpmd(t, DPDK{
		Vdevs:     []string{"net_vhost0,iface=" + socket},
		Arguments: []string{"--forward-mode=rxonly", "--auto-start"},
		CPU:       1,
	})
	g := kernelGuest(t, "^TestInsideChecksum$", NIC{Net: VhostUser(socket, 1), Options: []string{"vectors=0"}}, nil)
	ended(t, g)
	waitForPackets(t, host)
	if err := host.Quit(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestGuestSeesItsLink(t *testing.T) {
	Need(t, "qemu")
	g := kernelGuest(t, "^TestInsideLink$", NIC{Net: Hub(0)}, nil)
	for _, step := range []struct {
		up   bool
		said string
	}{{false, "carrier 0\n"}, {true, "carrier 1\n"}} {
		if err := g.SetLink(0, step.up); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Expect(t.Context(), step.said); err != nil {
			t.Fatal(err)
		}
	}
	ended(t, g)
}

// Two ends of DPDK, with no guest between them: what one sends the other
// receives.
func TestDPDKPair(t *testing.T) {
	Need(t, "dpdk")
	socket := filepath.Join(t.TempDir(), "vhost.sock")
	host := Testpmd(t, DPDK{
		Vdevs:     []string{"net_vhost0,iface=" + socket},
		Arguments: []string{"--forward-mode=rxonly"},
	})
	Command(t, host.Console, "start")
	peer := Testpmd(t, DPDK{
		Vdevs:     []string{"net_virtio_user0,path=" + socket + ",queue_size=256"},
		Arguments: []string{"--forward-mode=txonly"},
		CPU:       1,
	})
	Command(t, peer.Console, "start")
	waitForPackets(t, host)
	for _, p := range []*Process{peer, host} {
		Command(t, p.Console, "stop")
		if err := p.Quit(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// waitForPackets asks until port 0 has received something.
func waitForPackets(t *testing.T, p *Process) {
	t.Helper()
	const field = "RX-packets: "
	for range 100 {
		time.Sleep(20 * time.Millisecond)
		answer := Command(t, p.Console, "show port stats 0")
		_, rest, found := strings.Cut(answer, field)
		if !found {
			t.Fatalf("no %q in the answer:\n%s", field, answer)
		}
		var n int
		if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Error("no packet arrived")
}

// A UDP datagram from 192.0.2.1:1 to 192.0.2.2:2 with the payload "vionet".
// The sums were worked out by hand from the words of the pseudo header
//
//	c000+0201+c000+0202+0011+000e = 18422 → 8423
//
// and of the datagram itself, 8423+0001+0002+000e+7669+6f6e+6574 = 1cf7f →
// cf80, whose complement is 307f.
const (
	pseudoSum = 0x8423
	wholeSum  = 0x307f
)

// datagramFrame is that datagram with the given checksum, in a frame.
func datagramFrame(sum uint16) []byte {
	frame := slices.Concat(testMAC, unicastMAC, []byte{
		0x08, 0x00,
		0x45, 0, 0, 34, 0, 0, 0, 0, 64, 17, 0xf6, 0xc7, 192, 0, 2, 1, 192, 0, 2, 2,
		0, 1, 0, 2, 0, 14,
	})
	frame = binary.BigEndian.AppendUint16(frame, sum)
	return append(frame, "vionet"...)
}
