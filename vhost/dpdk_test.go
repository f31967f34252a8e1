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

	"vionet/scripts/lab"
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

// startTestpmd runs dpdk-testpmd with a --vdev, on plain pages.
func startTestpmd(tb testing.TB, vdev string, args ...string) *testpmd {
	tb.Helper()
	lab.Need(tb, "dpdk")
	all := append([]string{"-oL", "dpdk-testpmd", "--lcores", "0@0,1@0", "--no-pci", "--no-huge", "-m", "128",
		"--file-prefix", "vionet", "--no-telemetry", "--vdev", vdev,
		"--", "-i", "--total-num-mbufs=8192", "--no-lsc-interrupt", "--disable-link-check"}, args...)
	p := &testpmd{tb: tb, cmd: exec.Command("stdbuf", all...)}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	// A directory of its own: any number run at once, and nothing stays.
	p.cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+filepath.Dir(socketPath(tb)))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
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
	// The prompt comes character by character, with other threads' lines between.
	p.await(`(?m)^Done$`, 1)
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
		{plain | virtio.RingPacked, 1},
		{plain | virtio.RingPacked | virtio.NetMrgRxbuf, 2},
		{plain | virtio.RingPacked | virtio.InOrder | virtio.EventIdx | virtio.NetCSUM, 2},
		{plain | virtio.InOrder | virtio.EventIdx | virtio.NetMrgRxbuf, 2},
	} {
		r.start(tt.features, tt.pairs)
		ready++
		p.await("virtio is now ready for processing", ready)
		for i := range 200 {
			if i == 100 && round%3 == 0 {
				if _, err := r.mem.Grow(1 << 20); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
			pair := i % tt.pairs
			frame := frameOf(i, 60+7*i)
			r.send(pair, virtio.NetHeader{}, frame)
			if _, got := r.receive(pair); !bytes.Equal(got, frame) {
				t.Fatalf("round %d, frame %d: got %d bytes %x\nwant %x", round, i, len(got), got, frame)
			}
		}
	}
	if f.peer.protocol != knownProtocol&0x10cbf {
		t.Errorf("protocol features %#x, want %#x", f.peer.protocol, knownProtocol&0x10cbf)
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
	if _, err := f.Status(); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Status: %v, want ErrDisconnected", err)
	}
}

// DPDK's back end is killed and started again, in both roles; a split virtqueue
// goes on, a packed one is started anew as the device asks for it.
func TestB29DPDKBackendDies(t *testing.T) {
	for _, tt := range []struct {
		server bool
		kind   virtio.Features
	}{{false, 0}, {true, virtio.NetMrgRxbuf}, {true, virtio.RingPacked}} {
		t.Run(fmt.Sprintf("server=%v,%v", tt.server, tt.kind), func(t *testing.T) {
			path := socketPath(t)
			vdev := "net_vhost0,iface=" + path
			if tt.server {
				vdev += ",client=1"
			}
			live := func() *testpmd {
				if !tt.server {
					os.Remove(path) // which DPDK wants
				}
				p := startTestpmd(t, vdev, "--forward-mode=io", "--no-flush-rx")
				p.say("start")
				p.await("io packet forwarding packets/burst", 1)
				return p
			}
			p := live()
			f, err := Dial(path, FrontendConfig{QueueSize: rigSize, Server: tt.server, Log: logTo(t)})
			if err != nil {
				t.Fatal(err)
			}
			f.pause = time.Millisecond
			r := newRig(t, f, 1)
			r.start(plain|tt.kind, 1)
			move := func() {
				t.Helper()
				for i := range 300 {
					r.send(0, virtio.NetHeader{}, frameOf(i, 100))
					if _, got := r.receive(0); !bytes.Equal(got, frameOf(i, 100)) {
						t.Fatalf("frame %d: %x", i, got)
					}
				}
			}
			p.await("virtio is now ready for processing", 1)
			move()
			for range 2 {
				syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
				p = live()
				if tt.kind.Has(virtio.RingPacked) {
					eventually(t, "the wish for a reset", func() bool {
						status, err := f.Status()
						return err == nil && status.Has(virtio.StatusNeedsReset)
					})
					r.start(plain|tt.kind, 1)
				}
				p.await("virtio is now ready for processing", 1)
				move()
			}
		})
	}
}

// DPDK's front end against the loopback device.
func TestDPDKFrontend(t *testing.T) {
	for _, tt := range []struct {
		devargs, mode string
		pairs         int
	}{
		{"packed_vq=0,mrg_rxbuf=0,in_order=0", "io", 1},
		{"packed_vq=0,mrg_rxbuf=1,in_order=0", "io", 1},
		{"packed_vq=0,mrg_rxbuf=1,in_order=1", "io", 1},
		{"packed_vq=0,mrg_rxbuf=0,in_order=1", "io", 1},
		{"packed_vq=0,mrg_rxbuf=1", "io", 2},
		{"packed_vq=0,mrg_rxbuf=0,in_order=0", "txonly", 1},
		{"packed_vq=0,mrg_rxbuf=1,in_order=1", "txonly", 1},
		{"packed_vq=1,mrg_rxbuf=0,in_order=0", "io", 1},
		{"packed_vq=1,mrg_rxbuf=1,in_order=0", "io", 1},
		{"packed_vq=1,mrg_rxbuf=1,in_order=1", "io", 2},
		{"packed_vq=1,mrg_rxbuf=0,in_order=1", "io", 1},
		{"packed_vq=1,mrg_rxbuf=1,in_order=0", "txonly", 1},
	} {
		t.Run(fmt.Sprintf("%s,%s,%d", tt.mode, tt.devargs, tt.pairs), func(t *testing.T) {
			path := socketPath(t)
			l := newLoop(t, LoopbackConfig{Path: path, Pairs: tt.pairs, Packed: true})
			n := strconv.Itoa(tt.pairs)
			p := startTestpmd(t, "net_virtio_user0,path="+path+",queues="+n+","+tt.devargs,
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
			underWay := 32 * tt.pairs // the burst that tx_first put on each queue
			if tx == 0 || tt.mode == "io" && rx < 5_000-underWay {
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
