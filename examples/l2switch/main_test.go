package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vionet/examples/internal/host"
)

// TestMain makes the test's own binary the program where that is asked for.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_L2SWITCH") != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// program is a switch that runs.
type program struct {
	cmd *exec.Cmd
	out output
}

// output is what a program printed, to be read when it has ended.
type output struct {
	text  bytes.Buffer
	once  sync.Once
	began chan struct{} // closed when there is something
}

func (o *output) Write(b []byte) (int, error) {
	defer o.once.Do(func() { close(o.began) })
	return o.text.Write(b)
}

func start(t *testing.T, sockets ...string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, s := range sockets {
		args = append(args, "-a", s)
	}
	p := &program{cmd: exec.Command(exe, args...), out: output{began: make(chan struct{})}}
	p.cmd.Env = append(os.Environ(), "RUN_L2SWITCH=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	return p
}

// interrupt presses Ctrl-C and gives what was printed.
func (p *program) interrupt(t *testing.T) string {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, p.out.text.String())
	}
	return p.out.text.String()
}

// frameOf is a frame with a text behind its addresses.
func frameOf(dst, src byte, text string) []byte {
	head := []byte{2 | dst&1, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x88, 0xb5}
	return append(append(head, text...), make([]byte, 46)...)
}

// stations are hosts behind the switch, one a port.
type stations struct {
	t     *testing.T
	hosts []*host.Host
}

// send puts a frame into a port of the switch.
func (s stations) send(port int, frame []byte) {
	s.t.Helper()
	s.hosts[port].Send(0, frame)
}

// expect takes the next frame that leaves a port.
func (s stations) expect(port int, want []byte) {
	s.t.Helper()
	if got := s.hosts[port].Receive(0); !bytes.Equal(got, want) {
		s.t.Errorf("port %d sent %q, want %q", port, got, want)
	}
}

func TestSwitchLearns(t *testing.T) {
	s := stations{t: t}
	var sockets []string
	for range 3 {
		h := host.New(t, 1)
		s.hosts, sockets = append(s.hosts, h), append(sockets, h.Path)
	}
	p := start(t, sockets...)

	const a, b, everybody = 10, 12, 1 // the last bytes of addresses; an odd one is a group
	first := frameOf(b, a, "unknown, to all but the sender")
	s.send(0, first)
	s.expect(1, first)
	s.expect(2, first)
	answer := frameOf(a, b, "to the one port that a was seen on")
	s.send(1, answer)
	s.expect(0, answer)
	second := frameOf(b, a, "and back")
	s.send(0, second)
	s.expect(1, second)
	// Nothing else left before what goes to all, not even where it came in.
	last := frameOf(everybody, 14, "to all")
	s.send(2, last)
	s.expect(0, last)
	s.expect(1, last)
	moved := frameOf(everybody, b, "b has moved")
	s.send(2, moved)
	s.expect(0, moved)
	s.expect(1, moved)
	third := frameOf(b, a, "and is found")
	s.send(0, third)
	s.expect(2, third)

	want := `switching between 3 ports, Ctrl-C ends
port 0: received 3, sent 3
  3 bursts of 1.0 packets, 0 dropped
port 1: received 1, sent 4
  4 bursts of 1.0 packets, 0 dropped
port 2: received 2, sent 2
  2 bursts of 1.0 packets, 0 dropped
`
	if got := p.interrupt(t); got != want {
		t.Errorf("printed\n%s", got)
	}
}

func TestSwitchOnEmbeddedDevices(t *testing.T) {
	counts := regexp.MustCompile(`port \d: received (\d+), sent (\d+)`)
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		p := start(t)
		<-p.out.began    // from then on Ctrl-C does not just kill it
		time.Sleep(wait) // frames go to and fro
		out := p.interrupt(t)
		var numbers []int
		for _, m := range counts.FindAllStringSubmatch(out, -1) {
			for _, text := range m[1:] {
				n, _ := strconv.Atoi(text)
				numbers = append(numbers, n)
			}
		}
		if len(numbers) == 4 && min(numbers[0], numbers[1], numbers[2], numbers[3]) > 2*burst {
			return
		}
		if wait > 5*time.Second {
			t.Fatalf("hardly anything was forwarded:\n%s", out)
		}
	}
}

func TestSwitchWithoutABackEnd(t *testing.T) {
	p := start(t, "/nonexistent/socket", "/nonexistent/socket")
	if err := p.cmd.Wait(); err == nil || !bytes.Contains(p.out.text.Bytes(), []byte("/nonexistent/socket")) {
		t.Errorf("%v\n%s", err, p.out.text.String())
	}
}
