package vhost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"vionet/virtio"
)

// testpmd is a running dpdk-testpmd with a prompt.
type testpmd struct {
	tb    testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu  sync.Mutex
	out bytes.Buffer
}

// startTestpmd runs dpdk-testpmd with a --vdev, on plain pages. The test is
// skipped where it is not installed, unless VIONET_FULL=1 asks for everything.
func startTestpmd(tb testing.TB, vdev string, args ...string) *testpmd {
	tb.Helper()
	path, err := exec.LookPath("dpdk-testpmd")
	if err != nil {
		if os.Getenv("VIONET_FULL") == "1" {
			tb.Fatal("dpdk-testpmd is not installed: apt install dpdk-dev")
		}
		tb.Skip("dpdk-testpmd is not installed (Debian's package dpdk-dev)")
	}
	all := append([]string{"-oL", path, "--lcores", "0@0,1@0", "--no-pci", "--no-huge", "-m", "128",
		"--file-prefix", "vionet", "--no-telemetry", "--vdev", vdev,
		"--", "-i", "--total-num-mbufs=8192", "--no-lsc-interrupt", "--disable-link-check"}, args...)
	p := &testpmd{tb: tb, cmd: exec.Command("stdbuf", all...)}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	// A directory of its own: any number run at once, and nothing stays.
	p.cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+filepath.Dir(socketPath(tb)))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		p.cmd.Wait()
		if tb.Failed() {
			tb.Logf("dpdk-testpmd said:\n%s", p.output())
		}
	})
	p.await("testpmd> ", 1)
	return p
}

func (p *testpmd) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *testpmd) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *testpmd) say(command string) {
	p.tb.Helper()
	if _, err := io.WriteString(p.stdin, command+"\n"); err != nil {
		p.tb.Fatal(err)
	}
}

// await waits until a pattern was printed n times in all, and gives the last
// match with its groups.
func (p *testpmd) await(pattern string, n int) []string {
	p.tb.Helper()
	re := regexp.MustCompile(pattern)
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if found := re.FindAllStringSubmatch(p.output(), -1); len(found) >= n {
			return found[len(found)-1]
		}
		if time.Now().After(limit) {
			p.tb.Fatalf("dpdk-testpmd did not print %q %d times", pattern, n)
		}
	}
}

// waitForSocket waits for a socket file that another process makes.
func waitForSocket(tb testing.TB, path string) {
	tb.Helper()
	eventually(tb, "socket "+path, func() bool { _, err := os.Stat(path); return err == nil })
}

// The front end against DPDK's vhost back end, which forwards every frame back
// to the port it came from.
func TestDPDKBackend(t *testing.T) {
	path := socketPath(t)
	p := startTestpmd(t, "net_vhost0,iface="+path+",queues=2,tso=1", "--forward-mode=io", "--rxq=2", "--txq=2")
	p.say("start")
	waitForSocket(t, path)
	f, err := Dial(path, FrontendConfig{Queues: 2, QueueSize: rigSize, Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, f, 2)
	ready := 0
	for round, tt := range []struct {
		features virtio.Features
		pairs    int
	}{
		{plain, 1},
		{plain | virtio.NetMrgRxbuf, 1},
		{plain | virtio.NetCSUM | virtio.NetHostTSO4 | virtio.NetHostTSO6, 2},
		{plain | virtio.NetMrgRxbuf | virtio.NetCSUM | virtio.NetGuestCSUM, 2},
		{0, 1},
		{plain, 2},
	} {
		r.start(tt.features, tt.pairs)
		ready++
		p.await("virtio is now ready for processing", ready)
		for i := range 200 {
			pair := i % tt.pairs
			frame := frameOf(i, 60+7*i)
			r.send(pair, virtio.NetHeader{}, frame)
			if _, got := r.receive(pair); !bytes.Equal(got, frame) {
				t.Fatalf("round %d, frame %d: got %d bytes %x\nwant %x", round, i, len(got), got, frame)
			}
		}
	}
	if f.protocol != knownProtocol {
		t.Errorf("protocol features %#x, want %#x", f.protocol, knownProtocol)
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	p.await("vhost peer closed", 1)
}

// DPDK's back end dies under a running front end.
func TestDPDKBackendDies(t *testing.T) {
	path := socketPath(t)
	p := startTestpmd(t, "net_vhost0,iface="+path)
	waitForSocket(t, path)
	f, err := Dial(path, FrontendConfig{QueueSize: rigSize, Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{})
	f.Watch(func() { close(told) })
	r := newRig(t, f, 1)
	r.start(plain, 1)
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		t.Error("nobody was told")
	}
	if err := f.Reset(time.Second); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Reset: %v, want ErrDisconnected", err)
	}
}

// DPDK's front end against the loopback device.
func TestDPDKFrontend(t *testing.T) {
	for _, tt := range []struct {
		devargs, mode string
		pairs         int
	}{
		{"mrg_rxbuf=0,in_order=0", "io", 1},
		{"mrg_rxbuf=1,in_order=0", "io", 1},
		{"mrg_rxbuf=1,in_order=1", "io", 1},
		{"mrg_rxbuf=0,in_order=1", "io", 1},
		{"mrg_rxbuf=1", "io", 2},
		{"mrg_rxbuf=0,in_order=0", "txonly", 1},
		{"mrg_rxbuf=1,in_order=1", "txonly", 1},
	} {
		t.Run(fmt.Sprintf("%s,%s,%d", tt.mode, tt.devargs, tt.pairs), func(t *testing.T) {
			path := socketPath(t)
			l := newLoop(t, LoopbackConfig{Path: path, Pairs: tt.pairs})
			n := strconv.Itoa(tt.pairs)
			p := startTestpmd(t, "net_virtio_user0,path="+path+",packed_vq=0,queues="+n+","+tt.devargs,
				"--forward-mode="+tt.mode, "--rxq="+n, "--txq="+n)
			if tt.mode == "io" {
				p.say("start tx_first")
			} else {
				p.say("start")
			}
			eventually(t, "5000 frames", func() bool { s := l.Stats(); return s.Frames+s.Dropped > 5_000 })
			p.say("stop")
			counts := p.await(`RX-packets: (\d+) .*\n.*TX-packets: (\d+) `, 1)
			rx, _ := strconv.Atoi(counts[1])
			tx, _ := strconv.Atoi(counts[2])
			if tx == 0 || tt.mode == "io" && rx < 5_000 {
				t.Errorf("%d received, %d sent", rx, tx)
			}
			if s := l.Stats(); tt.mode == "io" && s.Dropped != 0 {
				t.Errorf("%d frames dropped", s.Dropped)
			}
			// Again, on the same connection.
			p.say("port stop 0")
			p.say("port config 0 tx_offload tcp_cksum on")
			p.say("port start 0")
			before := l.Stats()
			p.say("start tx_first")
			eventually(t, "frames after a restart", func() bool {
				s := l.Stats()
				return s.Frames+s.Dropped > before.Frames+before.Dropped+1000
			})
			p.say("show port 0 tx_offload capabilities")
			p.await(`Per Port  : VLAN_INSERT UDP_CKSUM TCP_CKSUM TCP_TSO MULTI_SEGS`, 1)
		})
	}
}
