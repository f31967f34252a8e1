package tapport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"vionet/port"
)

// patience bounds the wait for the kernel's answer, which it gives at once, in
// seconds.
const patience = 5

// link is the kernel's network interface, as rtnetlink shows and changes it.
// Its socket stays in the network namespace where it was opened.
type link struct {
	fd    int // of the netlink socket
	index uint32
	seq   uint32
}

// linkState is what the kernel says about an interface.
type linkState struct {
	flags uint32 // IFF_…
	mac   net.HardwareAddr
}

// findLink opens the interface of that name.
func findLink(name string) (*link, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("find the interface %s: %w", name, err)
	}
	l := &link{index: uint32(iface.Index)}
	if l.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	if err := unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: patience}); err != nil {
		l.close()
		return nil, fmt.Errorf("set up a netlink socket: %w", err)
	}
	return l, nil
}

func (l *link) close() { unix.Close(l.fd) }

// setUp brings the interface up or down.
func (l *link) setUp(up bool) error {
	var flags uint32
	if up {
		flags = unix.IFF_UP
	}
	_, err := l.ask(unix.RTM_NEWLINK, flags, unix.IFF_UP, nil)
	return wrap("change the state of the interface", err)
}

// setMTU sets the bytes of L3 data of a frame.
func (l *link) setMTU(mtu int) error {
	value := binary.NativeEndian.AppendUint32(nil, uint32(mtu))
	_, err := l.ask(unix.RTM_NEWLINK, 0, 0, attribute(unix.IFLA_MTU, value))
	return wrap(fmt.Sprintf("set the interface's MTU to %d", mtu), err)
}

func (l *link) setMAC(mac net.HardwareAddr) error {
	_, err := l.ask(unix.RTM_NEWLINK, 0, 0, attribute(unix.IFLA_ADDRESS, mac))
	return wrap(fmt.Sprintf("set the interface's address to %v", mac), err)
}

// state asks the kernel about the interface.
func (l *link) state() (linkState, error) {
	answer, err := l.ask(unix.RTM_GETLINK, 0, 0, nil)
	if err != nil {
		return linkState{}, wrap("read the state of the interface", err)
	}
	return parseState(answer)
}

// attribute encodes a route attribute (struct rtattr and its value).
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, -len(b)&(unix.RTA_ALIGNTO-1))...)
}

// ask sends a request about the interface (struct nlmsghdr, struct ifinfomsg,
// attributes) and gives the answer's message, if it has one.
func (l *link) ask(kind uint16, flags, change uint32, attributes []byte) (syscall.NetlinkMessage, error) {
	l.seq++
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg+len(attributes)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	b = binary.NativeEndian.AppendUint32(b, l.seq)
	b = binary.NativeEndian.AppendUint32(b, 0) // the kernel knows who asks
	b = append(b, unix.AF_UNSPEC, 0, 0, 0)     // family, padding, type
	b = binary.NativeEndian.AppendUint32(b, l.index)
	b = binary.NativeEndian.AppendUint32(b, flags)
	b = binary.NativeEndian.AppendUint32(b, change)
	b = append(b, attributes...)
	if err := unix.Sendto(l.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return syscall.NetlinkMessage{}, err
	}
	return l.answer()
}

// answer reads messages up to the acknowledgement of the last request.
func (l *link) answer() (answer syscall.NetlinkMessage, err error) {
	b := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(l.fd, b, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return answer, err
		}
		messages, err := syscall.ParseNetlinkMessage(b[:n])
		if err != nil {
			return answer, err
		}
		for _, m := range messages {
			switch {
			case m.Header.Seq != l.seq: // of a request whose answer came too late
			case m.Header.Type != unix.NLMSG_ERROR:
				answer = m
				answer.Data = bytes.Clone(m.Data)
			case len(m.Data) < 4:
				return answer, unix.EPROTO
			default:
				if errno := int32(binary.NativeEndian.Uint32(m.Data)); errno != 0 {
					return answer, unix.Errno(-errno)
				}
				return answer, nil
			}
		}
	}
}

// parseState reads an RTM_NEWLINK message.
func parseState(m syscall.NetlinkMessage) (s linkState, err error) {
	if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
		return s, fmt.Errorf("read the state of the interface: %w", unix.EPROTO)
	}
	s.flags = binary.NativeEndian.Uint32(m.Data[8:])
	for rest := m.Data[unix.SizeofIfInfomsg:]; len(rest) >= unix.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(rest))
		kind := binary.NativeEndian.Uint16(rest[2:])
		if size < unix.SizeofRtAttr || size > len(rest) {
			return s, fmt.Errorf("read the state of the interface: attribute of %d bytes: %w", size, unix.EPROTO)
		}
		if kind == unix.IFLA_ADDRESS {
			s.mac = bytes.Clone(rest[unix.SizeofRtAttr:size])
		}
		aligned := (size + unix.RTA_ALIGNTO - 1) &^ (unix.RTA_ALIGNTO - 1)
		rest = rest[min(aligned, len(rest)):]
	}
	return s, nil
}

// wrap says what failed and what to do about it.
func wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s: %w: run as root or with CAP_NET_ADMIN", what, err)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%s: %w: somebody removed it", what, port.ErrGone)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
