package main

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// nullConsole is the command line of a console on a port that needs no device
// and no second processor.
var nullConsole = []string{"testpmd", "--lcores", "0@0,1@0", "--no-pci", "--no-huge", "--vdev", "net_null0,no-rx=1", "--", "-i", "--total-num-mbufs=2048"}

// program prepares this test binary to run as vionet.
func program(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TERM=vt100", "HOME=/proc/nowhere", "XDG_CACHE_HOME=", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// heard collects what a program says.
type heard struct {
	mu   sync.Mutex
	text []byte
	mark int // what was expected ends here
}

func (h *heard) pump(r io.Reader) {
	b := make([]byte, 4096)
	for {
		n, err := r.Read(b)
		h.mu.Lock()
		h.text = append(h.text, b[:n]...)
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// expect waits until text follows what was expected last and gives what stood
// before it.
func (h *heard) expect(t *testing.T, text string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		h.mu.Lock()
		rest := string(h.text[h.mark:])
		if i := strings.Index(rest, text); i >= 0 {
			h.mark += i + len(text)
			h.mu.Unlock()
			return rest[:i]
		}
		h.mu.Unlock()
	}
	t.Fatalf("%q does not follow in\n%q", text, h.all())
	return ""
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.text)
}

// terminalConsole is a console on a pseudo-terminal of 80 columns.
type terminalConsole struct {
	heard
	cmd    *exec.Cmd
	master *os.File
	before unix.Termios
	slave  *os.File
}

// openTerminal starts a console and waits for its prompt.
func openTerminal(t *testing.T) *terminalConsole {
	t.Helper()
	c := startTerminal(t)
	c.expect(t, "testpmd> ")
	return c
}

// startTerminal starts a console.
func startTerminal(t *testing.T, more ...string) *terminalConsole {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { master.Close(); slave.Close() })
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	c := &terminalConsole{cmd: program(nullConsole...), master: master, slave: slave, before: termios(t, slave)}
	c.cmd.Env = append(c.cmd.Env, more...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	go c.pump(master)
	return c
}

func termios(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}

func (c *terminalConsole) send(t *testing.T, keys string) {
	t.Helper()
	if _, err := io.WriteString(c.master, keys); err != nil {
		t.Fatal(err)
	}
}

// ended waits for the program to end well and looks at the terminal.
func (c *terminalConsole) ended(t *testing.T) {
	t.Helper()
	c.expect(t, "Bye...\r\n")
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	if after := termios(t, c.slave); after != c.before {
		t.Errorf("the terminal was left as %+v, was %+v", after, c.before)
	}
}

func TestTerminalLinesAndEcho(t *testing.T) {
	c := openTerminal(t)
	if bare := regexp.MustCompile(`[^\r]\n`).FindString(c.all()); bare != "" {
		t.Errorf("a line ends without CR in %q", c.all())
	}
	c.send(t, "show config cores\n")
	if got := c.expect(t, "testpmd> "); got != "show config cores\r\nList of forwarding lcores:  1\r\n" {
		t.Errorf("%q", got)
	}
	c.send(t, "\n")
	if got := c.expect(t, "testpmd> "); got != "\r\n" {
		t.Errorf("an empty line gives %q", got)
	}
	c.send(t, "show port info 7\r")
	if got := c.expect(t, "testpmd> "); got != "show port info 7\r\nInvalid port 7\r\nThe valid ports array is [ 0 ]\r\n" {
		t.Errorf("%q", got)
	}
	c.send(t, "quit\n")
	c.ended(t)
}

func TestTerminalEditing(t *testing.T) {
	c := openTerminal(t)
	const answer = "List of forwarding lcores:  1\r\n"
	for what, keys := range map[string]string{
		"backspace":     "show config coresX\x7f\n",
		"start of line": "ow config cores\x01sh\n",
		"kill a line":   "nonsense\x15show config cores\n",
		"completion":    "show config co\t\n",
		"Ctrl-C":        "nonsense\x03show config cores\n",
	} {
		c.send(t, keys)
		c.expect(t, answer)
		if got := c.expect(t, "testpmd> "); got != "" {
			t.Errorf("%s: %q", what, got)
		}
	}
	c.send(t, "set burst 16\n")
	c.expect(t, "set to 16\r\ntestpmd> ")
	c.send(t, "\x1b[A\n") // the line before
	c.expect(t, "set to 16\r\ntestpmd> ")
	c.send(t, "tso ?\x15") // what may follow
	c.expect(t, " tso show (port_id)\r\n")
	c.send(t, "set flush_rx \t\t\x15") // all that may
	c.expect(t, " on  off\r\n")
	c.send(t, "\x04") // the end of the input
	c.ended(t)
}

// Ctrl-C gives up a line, then stops forwarding, then ends the program.
func TestTerminalCtrlC(t *testing.T) {
	c := openTerminal(t)
	c.command(t, "start")
	c.send(t, "half a comm\x03")
	c.expect(t, "^C\r\ntestpmd> ")
	c.send(t, "\x03")
	c.expect(t, "Waiting for lcores to finish...")
	c.expect(t, "Done.\r\ntestpmd> ")
	c.send(t, "\x03")
	c.ended(t)
}

func TestTerminalKeepsItsHistory(t *testing.T) {
	dir := "XDG_CACHE_HOME=" + t.TempDir()
	for range 2 {
		c := startTerminal(t, dir)
		c.expect(t, "testpmd> ")
		c.command(t, "set burst 17")
		c.send(t, "\x04")
		c.ended(t)
	}
	c := startTerminal(t, dir)
	c.expect(t, "testpmd> ")
	c.send(t, "\x1b[A\n")
	c.expect(t, "set to 17\r\ntestpmd> ")
	c.send(t, "\x04")
	c.ended(t)
}

func TestTerminalKeepsWhatWasTypedAhead(t *testing.T) {
	c := openTerminal(t)
	c.send(t, "start\nstop\nshow config cores\nquit\n")
	c.expect(t, "Done.\r\n")
	c.expect(t, "List of forwarding lcores:  1\r\n")
	c.ended(t)
}

func TestB26TerminalIsGivenBackAfterASignal(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		c := openTerminal(t)
		c.send(t, "start\n")
		c.expect(t, "testpmd> ")
		for range 20 {
			c.cmd.Process.Signal(syscall.SIGWINCH)
			c.cmd.Process.Signal(syscall.SIGURG)
		}
		c.send(t, "show config cores\n")
		c.expect(t, "lcores:  1\r\n")
		c.cmd.Process.Signal(sig)
		c.expect(t, "Waiting for lcores to finish...")
		c.ended(t)
	}
}
