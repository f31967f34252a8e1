package inet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pingPatience is how long an answer may take.
const pingPatience = 5 * time.Second

// ICMP echo messages (RFC 792): their types and the length of their header.
const (
	echoReply     = 0
	echoRequest   = 8
	icmpHeaderLen = 8
	ipHeaderLen   = 20
)

// Ping sends count echo requests with size bytes of payload, never in
// fragments, each after the answer to the one before, and gives the number of
// those that came back whole. A payload is at most the MTU less 28 bytes long. It
// takes root.
func Ping(addr netip.Addr, size, count int) (answered int, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return 0, fmt.Errorf("ping %v: %w", addr, err)
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(pingPatience))
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.Connect(fd, &unix.SockaddrInet4{Addr: addr.As4()}))
	for seq := 0; err == nil && seq < count; seq++ {
		request := echo(uint16(seq), size)
		if _, err = unix.Write(fd, request); err != nil {
			break
		}
		var whole bool
		if whole, err = awaitReply(fd, request); whole {
			answered++
		}
	}
	if err != nil {
		err = fmt.Errorf("ping %v with %d bytes: %w", addr, size, err)
	}
	return answered, err
}

// echo makes an echo request.
func echo(seq uint16, size int) []byte {
	m := make([]byte, icmpHeaderLen, icmpHeaderLen+size)
	m[0] = echoRequest
	binary.BigEndian.PutUint16(m[4:], uint16(os.Getpid()))
	binary.BigEndian.PutUint16(m[6:], seq)
	for i := range size {
		m = append(m, byte(i+i>>8)+byte(seq))
	}
	binary.BigEndian.PutUint16(m[2:], checksum(m))
	return m
}

// awaitReply reads what arrives up to the reply to request, or until it is too
// late for it. A raw socket shows the IP header too.
func awaitReply(fd int, request []byte) (bool, error) {
	b := make([]byte, 1<<16)
	for limit := time.Now().Add(pingPatience); time.Now().Before(limit); {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case err != nil:
			return false, err
		}
		if n < ipHeaderLen+icmpHeaderLen || b[ipHeaderLen] != echoReply {
			continue
		}
		reply := b[ipHeaderLen:n]
		if bytes.Equal(reply[4:icmpHeaderLen], request[4:icmpHeaderLen]) {
			return bytes.Equal(reply[icmpHeaderLen:], request[icmpHeaderLen:]), nil
		}
	}
	return false, nil
}

// checksum is the internet checksum (RFC 1071) of b.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i, v := range b {
		sum += uint32(v) << (8 * (1 - i&1))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
