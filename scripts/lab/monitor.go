package lab

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"
)

// monitorPrompt ends every answer of QEMU's monitor.
const monitorPrompt = "(qemu) "

// monitorPath is the monitor's socket.
func monitorPath(dir string) string { return filepath.Join(dir, "monitor") }

// SetLink plugs the cable of function number i in or out: the guest sees a
// configuration interrupt and another link status.
func (g *Guest) SetLink(i int, up bool) error {
	state := "off"
	if up {
		state = "on"
	}
	_, err := g.Monitor(fmt.Sprintf("set_link n%d %s", i, state))
	return err
}

// Monitor runs one command of QEMU's human monitor and gives all that the
// monitor said. Function number i of Config.NICs has the netdev id n followed
// by i.
func (g *Guest) Monitor(command string) (string, error) {
	conn, err := net.DialTimeout("unix", monitorPath(g.dir), patience)
	if err != nil {
		return "", fmt.Errorf("monitor: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := untilPrompt(conn); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", fmt.Errorf("monitor: %w", err)
	}
	return untilPrompt(conn)
}

// untilPrompt reads one answer of the monitor.
func untilPrompt(r io.Reader) (string, error) {
	var said []byte
	chunk := make([]byte, 512)
	for !bytes.HasSuffix(said, []byte(monitorPrompt)) {
		n, err := r.Read(chunk)
		said = append(said, chunk[:n]...)
		if err != nil {
			return "", fmt.Errorf("monitor: %w after %q", err, said)
		}
	}
	return string(said), nil
}
