package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// packetBuffer is the size of a packet socket's receive buffer in bytes: room
// for a burst that the test does not read at once.
const packetBuffer = 4 << 20

// The auxiliary data of a received frame (struct tpacket_auxdata): its size,
// and where the status, the VLAN tag and its type are.
const (
	auxSize    = 20
	auxStatus  = 0
	auxTag     = 16
	auxTagType = 18
)

// macAddresses is the length in bytes of what stands in front of a VLAN tag.
const macAddresses = 12

// Open makes a Cable of a network interface of the namespace: it sees what
// arrives there and sends out of it. Net is left empty.
func (ns *Namespace) Open(ifname string) (*Cable, error) {
	var w packetWire
	err := ns.Do(func() (err error) {
		w.File, err = openPacket(ifname)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", ifname, err)
	}
	return newCable(w), nil
}

// openPacket opens a packet socket on an interface of the thread's namespace.
func openPacket(ifname string) (*os.File, error) {
	iface, err := net.InterfaceByName(ifname)
	if err != nil {
		return nil, err
	}
	// No protocol yet: the socket hears nothing until it is bound.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := setUpPacket(fd, iface.Index); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), ifname), nil
}

// setUpPacket asks for the VLAN tags, which the kernel takes out of the frame,
// leaves out what the socket itself sends, and binds it.
func setUpPacket(fd, ifindex int) error {
	for _, o := range []struct{ level, name, value int }{
		{unix.SOL_PACKET, unix.PACKET_AUXDATA, 1},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, packetBuffer},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return err
		}
	}
	all := binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL)
	return unix.Bind(fd, &unix.SockaddrLinklayer{
		Protocol: binary.NativeEndian.Uint16(all),
		Ifindex:  ifindex,
	})
}

// packetWire is a wire on a packet socket.
type packetWire struct{ *os.File }

func (w packetWire) send(frame []byte) error {
	_, err := w.Write(frame)
	return err
}

func (w packetWire) receive(b []byte) (n int, err error) {
	conn, err := w.SyscallConn()
	if err != nil {
		return 0, err
	}
	oob := make([]byte, unix.CmsgSpace(auxSize))
	var oobn int
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		n, oobn, _, _, failed = unix.Recvmsg(int(fd), b, oob, 0)
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, err
	}
	return restoreTag(b, n, oob[:oobn]), nil
}

// restoreTag puts the VLAN tag of the auxiliary data back into the frame of n
// bytes in b and gives the frame's new length.
func restoreTag(b []byte, n int, oob []byte) int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return n
	}
	for _, m := range messages {
		aux := m.Data
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(aux) < auxSize {
			continue
		}
		tagged := binary.NativeEndian.Uint32(aux[auxStatus:])&unix.TP_STATUS_VLAN_VALID != 0
		if !tagged || n < macAddresses || n+4 > len(b) {
			continue
		}
		copy(b[macAddresses+4:], b[macAddresses:n])
		binary.BigEndian.PutUint16(b[macAddresses:], binary.NativeEndian.Uint16(aux[auxTagType:]))
		binary.BigEndian.PutUint16(b[macAddresses+2:], binary.NativeEndian.Uint16(aux[auxTag:]))
		return n + 4
	}
	return n
}
