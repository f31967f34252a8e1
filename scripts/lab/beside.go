package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"
)

// linePatience bounds how long QEMU takes to open its serial lines.
const linePatience = 10 * time.Second

// serialPath is where QEMU finds the other end of the serial line of program number i
// of Config.Beside.
func serialPath(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("serial%d", i+1))
}

// serialLine are QEMU's arguments for that line.
func serialLine(dir string, i int) []string {
	id := fmt.Sprintf("serial%d", i+1)
	return []string{"-chardev", fmt.Sprintf("socket,id=%s,path=%s", id, serialPath(dir, i)), "-serial", "chardev:" + id}
}

// serialLines are sockets that wait for QEMU.
type serialLines []net.Listener

// listen makes the sockets of n serial lines.
func listen(dir string, n int) (lines serialLines, err error) {
	for i := range n {
		l, err := net.Listen("unix", serialPath(dir, i))
		if err != nil {
			lines.close()
			return nil, fmt.Errorf("serial line: %w", err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// close closes the sockets; connections that were made stay.
func (lines serialLines) close() {
	for _, l := range lines {
		l.Close()
	}
}

// accept waits for QEMU, which ends when gone is closed, and makes consoles of the
// lines. A console ends with QEMU.
func (lines serialLines) accept(gone <-chan struct{}, mirror io.Writer) (consoles []*Console, err error) {
	accepted := make(chan struct{})
	defer close(accepted)
	go func() { // whatever happens, nobody waits for ever
		select {
		case <-gone:
		case <-time.After(linePatience):
		case <-accepted:
		}
		lines.close()
	}()
	for i, l := range lines {
		conn, err := l.Accept()
		if err != nil {
			for _, c := range consoles {
				c.in.(net.Conn).Close()
			}
			return nil, errors.Join(fmt.Errorf("serial line %d: QEMU did not open it", i+1), err)
		}
		c := newConsole(fmt.Sprintf("guest, serial line %d", i+1), conn, mirror)
		consoles = append(consoles, c)
		go func() {
			c.pump(conn)
			conn.Close()
		}()
	}
	return consoles, nil
}
