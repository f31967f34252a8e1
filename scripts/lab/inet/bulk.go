package inet

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"
)

// BulkPort is the TCP port of Serve.
const BulkPort = 5001

// bulkPatience bounds a transfer, whatever its size.
const bulkPatience = 40 * time.Second

// keepAlive lets the end that only reads notice that the other has gone, within
// some seconds or as soon as it is back.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 20}

// A transfer begins with a byte that says which way the data goes, as the one
// who connects sees it, and their number in eight bytes. Behind the data comes
// their SHA-256; the one who received it answers with one byte.
const (
	push = 'P'
	pull = 'G'

	intact  = 'Y'
	damaged = 'N'
)

var errDamaged = errors.New("the data arrived damaged")

// Serve answers Push and Pull, any number at a time, until l is closed.
func Serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = serve(conn) // the other end sees it too
		}()
	}
}

func serve(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(bulkPatience)); err != nil {
		return err
	}
	var request [9]byte
	if _, err := io.ReadFull(conn, request[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint64(request[1:]))
	if request[0] == push {
		return receive(conn, size)
	}
	return send(conn, size)
}

// Push sends size bytes to the Serve at addr, which checks them.
func Push(addr netip.Addr, size int64) error { return transfer(addr, push, size, send) }

// Pull receives size bytes from the Serve at addr, and checks them.
func Pull(addr netip.Addr, size int64) error { return transfer(addr, pull, size, receive) }

func transfer(addr netip.Addr, way byte, size int64, move func(net.Conn, int64) error) error {
	dialer := net.Dialer{Timeout: bulkPatience, KeepAliveConfig: keepAlive}
	conn, err := dialer.Dial("tcp4", netip.AddrPortFrom(addr, BulkPort).String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(bulkPatience)); err != nil {
		return err
	}
	if _, err := conn.Write(binary.BigEndian.AppendUint64([]byte{way}, uint64(size))); err != nil {
		return err
	}
	if err := move(conn, size); err != nil {
		return fmt.Errorf("%c of %d bytes, %v: %w", way, size, addr, err)
	}
	return nil
}

// send writes random bytes and their sum, and waits for the verdict.
func send(conn net.Conn, size int64) error {
	sum := sha256.New()
	source := rand.NewChaCha8([32]byte{byte(size)})
	if _, err := io.CopyN(io.MultiWriter(conn, sum), source, size); err != nil {
		return err
	}
	if _, err := conn.Write(sum.Sum(nil)); err != nil {
		return err
	}
	var verdict [1]byte
	if _, err := io.ReadFull(conn, verdict[:]); err != nil {
		return err
	}
	if verdict[0] != intact {
		return errDamaged
	}
	return nil
}

// receive reads the bytes and their sum, and gives the verdict.
func receive(conn net.Conn, size int64) error {
	sum := sha256.New()
	if _, err := io.CopyN(sum, conn, size); err != nil {
		return err
	}
	whole, err := sameSum(conn, sum)
	if err != nil {
		return err
	}
	if !whole {
		_, err = conn.Write([]byte{damaged})
		return errors.Join(errDamaged, err)
	}
	_, err = conn.Write([]byte{intact})
	return err
}

func sameSum(r io.Reader, sum hash.Hash) (bool, error) {
	var claimed [sha256.Size]byte
	_, err := io.ReadFull(r, claimed[:])
	return claimed == [sha256.Size]byte(sum.Sum(nil)), err
}
