package tapport

import (
	"encoding/binary"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"vionet/port"
)

func TestParseDevargs(t *testing.T) {
	for _, c := range []struct {
		name       string
		args, left map[string]string
		want       Config
		err        error
	}{
		{name: "net_tap0", want: Config{Name: "net_tap0"}},
		{name: "net_tap0", args: map[string]string{"iface": "foo%d", "remote": "eth0"}, left: map[string]string{"remote": "eth0"}, want: Config{Name: "net_tap0", Interface: "foo%d"}},
		{name: "net_tap12", args: map[string]string{"mac": "fixed"}, want: Config{Name: "net_tap12", MAC: net.HardwareAddr{0, 0x64, 0x74, 0x61, 0x70, 12}}},
		{name: "net_tap1", args: map[string]string{"mac": "52:54:00:12:34:56"}, want: Config{Name: "net_tap1", MAC: net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}}},
		{name: "x", args: map[string]string{"mac": "01:00:00:00:00:00"}, err: port.ErrInvalid},
		{name: "x", args: map[string]string{"mac": "00:00:00:00:00:00"}, err: port.ErrInvalid},
		{name: "x", args: map[string]string{"mac": "00:00:00:00:00:00:00:01"}, err: port.ErrInvalid},
		{name: "x", args: map[string]string{"mac": "random"}, err: port.ErrInvalid},
		{name: "x", args: map[string]string{"iface": ""}, err: port.ErrInvalid},
		{name: "x", args: map[string]string{"iface": "sixteen-letters-"}, err: port.ErrInvalid},
		{name: "x", args: map[string]string{"iface": "a/b"}, err: port.ErrInvalid},
		{name: "x", args: map[string]string{"iface": ".."}, err: port.ErrInvalid},
	} {
		got, err := ParseDevargs(c.name, c.args)
		if !errors.Is(err, c.err) {
			t.Errorf("%v: %v, want %v", c.args, err, c.err)
		}
		if c.err != nil {
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s %v: %s", c.name, c.args, d)
		}
		if len(c.args) != len(c.left) {
			t.Errorf("%s: left %v, want %v", c.name, c.args, c.left)
		}
	}
}

func TestParseStateOfBrokenMessages(t *testing.T) {
	whole := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(whole[8:], unix.IFF_UP)
	whole = append(whole, attribute(unix.IFLA_IFNAME, []byte("tap0\x00"))...)
	whole = append(whole, attribute(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, 1})...)
	whole = append(whole, attribute(unix.IFLA_MTU, binary.NativeEndian.AppendUint32(nil, 1500))...)
	message := func(b []byte) syscall.NetlinkMessage {
		return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWLINK}, Data: b}
	}
	s, err := parseState(message(whole))
	want := linkState{flags: unix.IFF_UP, mac: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	if d := cmp.Diff(want, s, cmp.AllowUnexported(linkState{})); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	for n := range unix.SizeofIfInfomsg {
		if _, err := parseState(message(whole[:n])); err == nil {
			t.Errorf("%d bytes: no error", n)
		}
	}
	for n := range whole {
		parseState(message(whole[:n])) // does not panic
	}
}
