package vhost

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// dpdkFeatures are those that a known back end offers, some of which must not
// reach the driver.
const dpdkFeatures = virtio.Features(0x0d7c66ffcb)

func scriptedFrontend(tb testing.TB, s *scripted, sock *net.UnixConn, cfg FrontendConfig) *Frontend {
	tb.Helper()
	go s.run()
	cfg.setDefaults()
	f, err := newFrontend(sock, nil, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		f.Close()
		<-s.done
	})
	return f
}

// The messages of a first start, of a second one and of the end, in order.
func TestB28MessageOrder(t *testing.T) {
	s, sock := newScripted(t, dpdkFeatures, 0x10cbf)
	f := scriptedFrontend(t, s, sock, FrontendConfig{Queues: 2, QueueSize: rigSize})
	want := []string{"SET_OWNER", "GET_FEATURES", "GET_PROTOCOL_FEATURES", "SET_PROTOCOL_FEATURES 0x10039", "GET_QUEUE_NUM", "SET_BACKEND_REQ_FD"}
	if diff := cmp.Diff(want, s.trace()); diff != "" {
		t.Errorf("Dial (-want +got):\n%s", diff)
	}
	r := newRig(t, f, 2)
	start := []string{
		"SET_VRING_CALL 0x0", "SET_VRING_CALL 0x1", "SET_VRING_CALL 0x2", "SET_VRING_CALL 0x3",
		"SET_FEATURES 0x140400000", "SET_STATUS 0xb", "GET_STATUS",
		"SET_MEM_TABLE 1",
		"SET_VRING_NUM 0 64", "SET_VRING_BASE 0 0", "SET_VRING_ADDR 0", "SET_VRING_KICK 0x0",
		"SET_VRING_NUM 1 64", "SET_VRING_BASE 1 0", "SET_VRING_ADDR 1", "SET_VRING_KICK 0x1",
		"SET_VRING_NUM 2 64", "SET_VRING_BASE 2 0", "SET_VRING_ADDR 2", "SET_VRING_KICK 0x2",
		"SET_VRING_NUM 3 64", "SET_VRING_BASE 3 0", "SET_VRING_ADDR 3", "SET_VRING_KICK 0x3",
		"SET_VRING_ENABLE 0 1", "SET_VRING_ENABLE 1 1", "SET_STATUS 0xf",
		"SET_VRING_ENABLE 2 1", "SET_VRING_ENABLE 3 1",
	}
	stop := []string{
		"SET_VRING_ENABLE 0 0", "SET_VRING_ENABLE 1 0", "SET_VRING_ENABLE 2 0", "SET_VRING_ENABLE 3 0",
		"GET_VRING_BASE 0 0", "GET_VRING_BASE 1 0", "GET_VRING_BASE 2 0", "GET_VRING_BASE 3 0",
		"SET_STATUS 0x0",
	}
	r.start(plain, 2)
	if diff := cmp.Diff(start, s.trace()); diff != "" {
		t.Errorf("first start (-want +got):\n%s", diff)
	}
	r.start(plain, 2)
	if diff := cmp.Diff(append(stop, start...), s.trace()); diff != "" {
		t.Errorf("second start (-want +got):\n%s", diff)
	}
	f.Close()
	if diff := cmp.Diff(stop, s.trace()); diff != "" {
		t.Errorf("Close (-want +got):\n%s", diff)
	}
}

// A back end without protocol features: no acknowledgement is waited for, no
// queue is switched on or off.
func TestB28OldBackend(t *testing.T) {
	s, sock := newScripted(t, virtio.Version1|virtio.NetMrgRxbuf, 0)
	f := scriptedFrontend(t, s, sock, FrontendConfig{QueueSize: rigSize})
	r := newRig(t, f, 1)
	r.start(plain, 1)
	r.must(f.Reset(time.Second))
	want := []string{
		"SET_OWNER", "GET_FEATURES",
		"SET_VRING_CALL 0x0", "SET_VRING_CALL 0x1", "SET_FEATURES 0x100000000",
		"SET_MEM_TABLE 1",
		"SET_VRING_NUM 0 64", "SET_VRING_BASE 0 0", "SET_VRING_ADDR 0", "SET_VRING_KICK 0x0",
		"SET_VRING_NUM 1 64", "SET_VRING_BASE 1 0", "SET_VRING_ADDR 1", "SET_VRING_KICK 0x1",
		"GET_VRING_BASE 0 0", "GET_VRING_BASE 1 0",
	}
	if diff := cmp.Diff(want, s.trace()); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestFrontendFeatures(t *testing.T) {
	mac := net.HardwareAddr{0x52, 0x54, 0, 0x58, 0xd7, 1}
	tests := []struct {
		name string
		cfg  FrontendConfig
		want virtio.Features
	}{
		// 0x0d7c66ffcb has bits 0, 1, 3, 6-15, 17, 18, 21, 22, 26-30, 32, 34
		// and 35; 3, 6, 17, 18, 21, 22, 26 and 30 stay hidden, 16 is added.
		{"as offered", FrontendConfig{}, 0xd3801ff83},
		{"with an address", FrontendConfig{MAC: mac}, 0xd3801ffa3},
		{"masked", FrontendConfig{Mask: virtio.NetMrgRxbuf | virtio.RingPacked}, 0x938017f83},
	}
	for _, tt := range tests {
		s, sock := newScripted(t, dpdkFeatures, 0x10cbf)
		f := scriptedFrontend(t, s, sock, tt.cfg)
		got, err := f.Features()
		if err != nil || got != tt.want {
			t.Errorf("%s: %#x (%v), %v, want %#x (%v)", tt.name, uint64(got), got, err, uint64(tt.want), tt.want)
		}
		if err := f.SetFeatures(virtio.NetCtrlVQ); err == nil {
			t.Errorf("%s: a feature that was not offered was accepted", tt.name)
		}
		if f.Name() != "net_virtio_user0" || f.Driver() != "net_virtio_user" || f.Addressing().Mode != mbuf.IOVAVirtual || f.MaxPairs() != 1 {
			t.Errorf("%s: %s, %s, %v, %d pairs", tt.name, f.Name(), f.Driver(), f.Addressing(), f.MaxPairs())
		}
		var space [12]byte
		if err := f.ReadConfig(0, space[:]); err != nil {
			t.Error(err)
		}
		want := [12]byte{6: 1, 8: 1}
		copy(want[:], tt.cfg.MAC)
		if space != want {
			t.Errorf("%s: configuration %x, want %x", tt.name, space, want)
		}
		for _, bad := range []struct{ off, n int }{{-1, 1}, {0, 13}, {12, 1}, {1 << 62, 1 << 10}} {
			if f.ReadConfig(bad.off, make([]byte, bad.n)) == nil {
				t.Errorf("ReadConfig(%d, %d bytes) succeeded", bad.off, bad.n)
			}
		}
	}
}

func TestRefusedFeatures(t *testing.T) {
	t.Run("by status", func(t *testing.T) {
		s, sock := newScripted(t, dpdkFeatures, 0x10009)
		s.answers[getStatus] = func(message) message { return message{u64: 0x3} }
		r := newRig(t, scriptedFrontend(t, s, sock, FrontendConfig{}), 1)
		if status, err := r.negotiate(plain); err != nil || status.Has(virtio.StatusFeaturesOK) {
			t.Errorf("status %v, %v, want none of FEATURES_OK", status, err)
		}
	})
	t.Run("by acknowledgement", func(t *testing.T) {
		s, sock := newScripted(t, dpdkFeatures, protocolReplyAck)
		s.answers[setFeatures] = func(message) message { return message{u64: 1} }
		r := newRig(t, scriptedFrontend(t, s, sock, FrontendConfig{}), 1)
		if status, err := r.negotiate(plain); err != nil || status.Has(virtio.StatusFeaturesOK) {
			t.Errorf("status %v, %v, want none of FEATURES_OK", status, err)
		}
	})
	t.Run("by this package's back end", func(t *testing.T) {
		b, f := listenAndDial(t, BackendConfig{Mask: virtio.NetCSUM}, FrontendConfig{})
		f.peer.offered |= virtio.NetCSUM
		r := newRig(t, f, 1)
		if status, err := r.negotiate(plain | virtio.NetCSUM); err != nil || status.Has(virtio.StatusFeaturesOK) {
			t.Errorf("status %v, %v, want none of FEATURES_OK", status, err)
		}
		f.peer.offered &^= virtio.NetCSUM
		r.must(f.SetStatus(virtio.StatusFailed))
		r.start(plain, 1) // it can be asked again
		if !b.TxQueue(0).Running() {
			t.Error("the queue does not run")
		}
	})
}

// Answers that are late, wrong or missing end the connection, and the error
// says so; nothing hangs.
func TestB27BadAnswers(t *testing.T) {
	reply := func(m message) []byte { m.flags |= flagReply; return m.encode() }
	tests := []struct {
		name string
		send func(*scripted)
		want string
	}{
		{"closed", func(s *scripted) { s.conn.sock.Close() }, "has ended"},
		{"nothing", func(*scripted) {}, "no answer within"},
		{"another request's", func(s *scripted) { s.conn.sock.Write(reply(message{request: getQueueNum})) }, "unexpected GET_QUEUE_NUM"},
		{"no reply flag", func(s *scripted) {
			m := message{request: getFeatures}
			s.conn.sock.Write(m.encode())
		}, "unexpected GET_FEATURES"},
		{"wrong size", func(s *scripted) { s.conn.sock.Write([]byte{1, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}) }, "not its size"},
		{"half of it", func(s *scripted) { s.conn.sock.Write(reply(message{request: getFeatures})[:14]) }, "has ended ("},
		{"with a descriptor", func(s *scripted) {
			s.conn.send(message{request: getFeatures, flags: flagReply}, 0)
		}, "file descriptor"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fds := countFDs(t)
			s, sock := newScripted(t, dpdkFeatures, 0)
			go func() {
				s.conn.receive() // SET_OWNER
				s.conn.receive() // GET_FEATURES
				tt.send(s)
			}()
			cfg := FrontendConfig{Timeout: 100 * time.Millisecond}
			cfg.setDefaults()
			_, err := newFrontend(sock, nil, cfg)
			if !errors.Is(err, ErrDisconnected) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want ErrDisconnected with %q", err, tt.want)
			}
			s.conn.sock.Close()
			eventually(t, "descriptors closed", func() bool { return countFDs(t) == fds })
		})
	}
}

// The back end goes away, or goes silent, at every step of a start in turn.
func TestB27BackendEndsInTheMiddle(t *testing.T) {
	const steps = 22 // messages from SET_OWNER to DRIVER_OK, with one pair
	for _, silent := range []bool{false, true} {
		for n := range steps {
			fds, maps := countFDs(t), countMappings(t)
			s, sock := newScripted(t, dpdkFeatures, 0x10009)
			s.failAt, s.failSilent = n+1, silent
			go s.run()
			cfg := FrontendConfig{QueueSize: rigSize, Timeout: 5 * time.Second}
			if silent {
				cfg.Timeout = 20 * time.Millisecond
			}
			cfg.setDefaults()
			f, err := newFrontend(sock, nil, cfg)
			if err == nil {
				r := newRig(t, f, 1)
				err = r.tryStart(plain, 1)
				if closeErr := f.Close(); closeErr != nil {
					t.Errorf("step %d: Close: %v", n, closeErr)
				}
				r.mem.Close()
			}
			// SET_OWNER and SET_PROTOCOL_FEATURES have no answer; the end shows
			// with the next message.
			if !errors.Is(err, ErrDisconnected) && !(silent && (n == 0 || n == 3)) {
				t.Errorf("step %d, silent %v: %v, want ErrDisconnected", n, silent, err)
			}
			s.conn.sock.Close()
			<-s.done
			eventually(t, "descriptors and mappings given back", func() bool {
				return countFDs(t) == fds && countMappings(t) == maps
			})
		}
	}
}

// The link is asked for all the time while the device starts and stops, by
// another goroutine; the back end takes its time to answer.
func TestB27LinkPolledDuringRestarts(t *testing.T) {
	r, _ := loopRig(t, LoopbackConfig{})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Microsecond):
				var b [2]byte
				if r.f.ReadConfig(virtio.ConfigStatus, b[:]); b[0] != 1 {
					t.Error("the link went down")
					return
				}
			}
		}
	}()
	for range 500 {
		r.start(plain, 1)
	}
	close(stop)
	<-done
}

func TestB22TooManyRegions(t *testing.T) {
	s, sock := newScripted(t, dpdkFeatures, 0x10009)
	f := scriptedFrontend(t, s, sock, FrontendConfig{})
	s.trace()
	region := mbuf.Region{Bytes: make([]byte, 4096)}
	if err := f.mapRegions(make9(region)); err == nil || !strings.Contains(err.Error(), "9 regions") || !strings.Contains(err.Error(), "at most 8") {
		t.Errorf("error %v, want one with the number, the limit and what to do", err)
	}
	if sent := s.trace(); len(sent) != 0 {
		t.Errorf("sent %v before the error", sent)
	}
}

func make9(r mbuf.Region) []mbuf.Region {
	return []mbuf.Region{r, r, r, r, r, r, r, r, r}
}

func TestSetupQueueRefuses(t *testing.T) {
	s, sock := newScripted(t, dpdkFeatures, 0x10009)
	f := scriptedFrontend(t, s, sock, FrontendConfig{QueueSize: rigSize})
	r := newRig(t, f, 1)
	z := r.areas[0]
	q := port.QueueSetup{Size: rigSize, Desc: z, Avail: z, Used: z}
	if _, err := f.SetupQueue(q); !errors.Is(err, port.ErrState) {
		t.Errorf("before the features: %v, want ErrState", err)
	}
	_, err := r.negotiate(plain)
	r.must(err)
	for _, bad := range []port.QueueSetup{
		{Index: 2, Size: rigSize}, {Index: -1, Size: rigSize}, {Size: 0}, {Size: 48}, {Size: 128},
	} {
		if _, err := f.SetupQueue(bad); err == nil {
			t.Errorf("queue %d of size %d was set up", bad.Index, bad.Size)
		}
	}
	if _, err := f.SetupQueue(q); err != nil {
		t.Error(err)
	}
	if _, err := f.SetupQueue(q); !errors.Is(err, port.ErrState) {
		t.Errorf("the second time: %v, want ErrState", err)
	}
	for index, want := range map[int]int{0: rigSize, 1: rigSize, 2: 0, -1: 0} {
		if got, err := f.QueueSize(index); got != want || err != nil {
			t.Errorf("QueueSize(%d) = %d, %v, want %d", index, got, err, want)
		}
	}
}

func TestDialErrors(t *testing.T) {
	missing := socketPath(t)
	dead := socketPath(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	file := socketPath(t)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fds := countFDs(t)
	for path, want := range map[string]error{missing: unix.ENOENT, dead: unix.ECONNREFUSED, file: unix.ECONNREFUSED} {
		_, err := Dial(path, FrontendConfig{Name: "net_virtio_user3"})
		if !errors.Is(err, want) {
			t.Errorf("Dial = %v, want %v", err, want)
			continue
		}
		for _, part := range []string{path, "net_virtio_user3", "start the back end first"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %q", err, part)
			}
		}
	}
	for _, cfg := range []FrontendConfig{{Queues: 129}, {Queues: -1}, {QueueSize: 100}, {QueueSize: 65536}, {MAC: make(net.HardwareAddr, 8)}} {
		if _, err := Dial(missing, cfg); err == nil || errors.Is(err, unix.ENOENT) {
			t.Errorf("%+v: %v, want the value refused", cfg, err)
		}
	}
	if n := countFDs(t); n != fds {
		t.Errorf("%d descriptors open, %d before", n, fds)
	}
}

func TestParseDevargs(t *testing.T) {
	mac := net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	args := map[string]string{
		"path": "/tmp/x", "queues": "2", "queue_size": "512", "mac": "52:54:00:12:34:56",
		"mrg_rxbuf": "0", "in_order": "0", "packed_vq": "1", "server": "1", "mtu": "9000", "simple_tx_support": "1",
	}
	path, cfg, err := ParseDevargs("net_virtio_user0", args)
	want := FrontendConfig{Name: "net_virtio_user0", Queues: 2, QueueSize: 512, MAC: mac, Mask: virtio.NetMrgRxbuf | virtio.InOrder, MTU: 9000, Server: true}
	if err != nil || path != "/tmp/x" {
		t.Errorf("path %q, %v", path, err)
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"simple_tx_support": "1"}, args); diff != "" {
		t.Errorf("left over (-want +got):\n%s", diff)
	}
	_, cfg, err = ParseDevargs("v", map[string]string{"path": "p"})
	if diff := cmp.Diff(FrontendConfig{Name: "v", Queues: 1, QueueSize: 256, Mask: virtio.RingPacked}, cfg); diff != "" || err != nil {
		t.Errorf("defaults: %v (-want +got):\n%s", err, diff)
	}
	for key, values := range map[string][]string{
		"path": {""}, "server": {"2"}, "mtu": {"67", "65536", ""}, "queues": {"0", "129", "x", "-1", "", "1x"},
		"queue_size": {"0", "65536", "100"}, "mrg_rxbuf": {"2", "yes"},
		"mac": {"52:54", "52:54:00:12:34:56:78:90", "01:00:00:00:00:01"},
	} {
		for _, value := range values {
			args := map[string]string{"path": "p", key: value}
			if _, _, err := ParseDevargs("v", args); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s=%s: %v, want an error that names it", key, value, err)
			}
		}
	}
}
