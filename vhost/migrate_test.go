package vhost

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/scripts/lab"
)

// migrationFrame is frame number i of either direction.
func migrationFrame(i int) []byte { return frameOf(i, 60+i*37%1400) }

// A guest with the kernel's own driver moves to another QEMU on another back end
// while frames go both ways. What the first back end has written into its memory
// is read only there; so every page must have been noted.
func TestGuestMigrates(t *testing.T) {
	lab.Need(t, "qemu")
	binary, err := lab.BuildTest(t.Context(), t.TempDir(), "vionet/vhost")
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"packed=off", "packed=on"} {
		t.Run(option, func(t *testing.T) {
			channel := filepath.Join(filepath.Dir(socketPath(t)), "migration")
			boot := func(backEnd string, arguments ...string) *lab.Guest {
				return lab.Boot(t, lab.Config{
					Program:   []string{"/bin/test", "-test.run=^TestInsideMigration$"},
					Env:       []string{"VIONET_GUEST=1"},
					Files:     map[string]string{"/bin/test": binary},
					NICs:      []lab.NIC{{Net: lab.VhostUser(backEnd, 1), Options: []string{"vectors=0", option}}},
					Driver:    "none",
					Modules:   lab.VirtioModules,
					NoIOMMU:   true,
					Memory:    256,
					Migrates:  true,
					Hugepages: -1,
					Arguments: arguments,
				})
			}
			m := &migration{tb: t, stop: make(chan struct{})}
			for i := range m.hosts {
				m.hosts[i] = newPortRig(t, PortConfig{Packed: true}, port.Config{})
			}
			source := boot(m.hosts[0].path)
			if _, err := source.Expect(t.Context(), "interface is up\n"); err != nil {
				t.Fatal(err)
			}
			target := boot(m.hosts[1].path, "-incoming", "unix:"+channel)
			eventually(t, "the second QEMU", func() bool {
				_, err := os.Stat(channel)
				return err == nil
			})
			m.worker.Go(m.moveFrames)
			defer m.end()
			eventually(t, "200 frames before the migration", func() bool { return m.count(0) >= 200 })
			for _, command := range []string{"migrate_set_parameter max-bandwidth 64m", "migrate -d unix:" + channel} {
				if _, err := source.Monitor(command); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "the end of the migration", func() bool {
				said, err := source.Monitor("info migrate")
				if err != nil || strings.Contains(said, "failed") {
					t.Fatalf("%v: %s", err, said)
				}
				return strings.Contains(said, "completed")
			})
			eventually(t, "200 frames after the migration", func() bool { return m.count(1) >= 200 })
			m.end()
			fmt.Printf("cell: migration, %s: %d frames from the guest before it ended, %d after, %d to the guest, %d announcements\n",
				option, m.count(0), m.count(1), m.sent, m.announced)
			if m.announced == 0 {
				t.Error("the guest was not announced where it is now")
			}
			if err := target.Send(fmt.Sprintf("read %d", m.sent)); err != nil {
				t.Fatal(err)
			}
			if _, err := target.Expect(t.Context(), fmt.Sprintf("%d frames are right\n", m.sent)); err != nil {
				t.Fatal(err)
			}
			if status, err := target.Wait(t.Context()); status != 0 || err != nil {
				t.Errorf("the guest's program ended with %d, %v", status, err)
			}
		})
	}
}

// migration is the traffic of a guest that moves from the first host to the
// second.
type migration struct {
	tb     testing.TB
	hosts  [2]*portRig
	stop   chan struct{}
	once   sync.Once
	worker sync.WaitGroup

	mu        sync.Mutex
	received  [2]int // by host
	sent      int
	announced int
	wrong     int
}

// count is the number of frames that a host has received.
func (m *migration) count(host int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.received[host]
}

func (m *migration) end() {
	m.once.Do(func() { close(m.stop) })
	m.worker.Wait()
}

// moveFrames receives all that the guest sends, and sends to where it is.
func (m *migration) moveFrames() {
	for range time.Tick(500 * time.Microsecond) {
		select {
		case <-m.stop:
			return
		default:
		}
		m.mu.Lock()
		for i := range m.hosts {
			m.receive(i)
		}
		for _, h := range m.hosts {
			if m.sent < 4000 && h.port.Link().Up && m.send(h) {
				break
			}
		}
		m.mu.Unlock()
	}
}

// receive takes a burst. The guest's frames come each once and in order,
// whichever host they come to.
func (m *migration) receive(host int) {
	var bufs [32]*mbuf.Buf
	for _, b := range bufs[:m.hosts[host].port.RxQueue(0).Burst(bufs[:])] {
		frame := bytesOf(b)
		b.Free()
		switch etherType := binary.BigEndian.Uint16(frame[12:]); etherType {
		case 0x88b5:
			if want := migrationFrame(m.received[0] + m.received[1]); !bytes.Equal(frame, want) {
				m.wrong++
				if m.wrong == 1 {
					m.tb.Errorf("host %d received\n%x, want\n%x", host, frame, want)
				}
			}
			m.received[host]++
		case 0x8035:
			if host == 1 && bytes.Equal(frame[6:12], []byte{0x52, 0x54, 0, 0, 0, 1}) {
				m.announced++
			}
		}
	}
}

// send sends the next frame, if the guest has room.
func (m *migration) send(h *portRig) bool {
	b := packetOf(m.tb, h.pool, migrationFrame(m.sent), 2048)
	if h.port.TxQueue(0).Burst([]*mbuf.Buf{b}) == 0 {
		b.Free()
		return false
	}
	m.sent++
	return true
}

// TestInsideMigration runs in the guest. It sends all the time, and reads when it
// is told to.
func TestInsideMigration(t *testing.T) {
	if os.Getenv("VIONET_GUEST") != "1" {
		t.Skip("runs inside a guest of the lab")
	}
	out, in := packetSocket(t, 0), packetSocket(t, 0x88b5)
	fmt.Println("interface is up")
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		for i := 0; ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			if _, err := unix.Write(out, migrationFrame(i)); err == nil {
				i++
			}
		}
	})
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	close(stop)
	sender.Wait()
	var n int
	if _, err := fmt.Sscanf(line, "read %d", &n); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 2048)
	for i := range n {
		got, err := unix.Read(in, frame)
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if want := migrationFrame(i); !bytes.Equal(frame[:got], want) {
			t.Fatalf("frame %d is\n%x, want\n%x", i, frame[:got], want)
		}
	}
	fmt.Printf("%d frames are right\n", n)
}

// packetSocket opens the guest's interface for frames of one kind, of which it
// keeps many, and waits 5 s at most for one.
func packetSocket(t *testing.T, etherType uint16) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	request, err := unix.NewIfreq("eth0")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
	eth, err := net.InterfaceByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: etherType<<8 | etherType>>8, Ifindex: eth.Index}); err != nil {
		t.Fatal(err)
	}
	return fd
}
