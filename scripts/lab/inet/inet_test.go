package inet

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
)

var home = netip.MustParseAddr("127.0.0.1")

// serveHere starts the server on the loopback interface.
func serveHere(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", BulkPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go Serve(l)
}

func TestBulk(t *testing.T) {
	serveHere(t)
	for _, size := range []int64{0, 1, 1 << 20} {
		if err := Push(home, size); err != nil {
			t.Error(err)
		}
		if err := Pull(home, size); err != nil {
			t.Error(err)
		}
	}
}

func TestBulkDamaged(t *testing.T) {
	near, far := net.Pipe()
	verdict := make(chan error, 1)
	go func() { verdict <- receive(far, 5) }()
	sum := sha256.Sum256([]byte("hallo"))
	if _, err := near.Write(append([]byte("hello"), sum[:]...)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1)
	if _, err := near.Read(answer); err != nil || answer[0] != damaged {
		t.Errorf("answer %q, %v", answer, err)
	}
	if err := <-verdict; !errors.Is(err, errDamaged) {
		t.Error(err)
	}
}

func TestPing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("raw sockets are root's")
	}
	for _, size := range []int{0, 1, 56, 1472, 8972} {
		if n, err := Ping(home, size, 3); n != 3 || err != nil {
			t.Errorf("%d bytes: %d answers, %v", size, n, err)
		}
	}
	if n, err := Ping(home, 65508, 1); n != 0 || err == nil {
		t.Errorf("more bytes than a datagram holds: %d answers, %v", n, err)
	}
}

// The message and its sum were worked out by hand: 0800 + 1234 + 0001 + 6162 =
// 7b97, whose complement is 8468.
func TestChecksum(t *testing.T) {
	if got := checksum([]byte{8, 0, 0, 0, 0x12, 0x34, 0, 1, 'a', 'b'}); got != 0x8468 {
		t.Errorf("%#x", got)
	}
}
