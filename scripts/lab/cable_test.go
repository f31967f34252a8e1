package lab

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

var (
	unicastMAC = []byte{0x52, 0x54, 0, 0, 0, 1}
	testMAC    = []byte{0x52, 0x54, 0, 0, 0, 0xff}
)

func TestCableCarriesFrames(t *testing.T) {
	Need(t, "net", "root")
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ns, err := NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	c, err := ns.Cable("tap0", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	far, err := ns.Open("tap0-out")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()

	payload := bytes.Repeat([]byte("payload "), 8)
	plain := slices.Concat(unicastMAC, testMAC, []byte{0x88, 0xb5}, payload)
	tagged := slices.Concat(unicastMAC, testMAC, []byte{0x81, 0x00, 0x20, 0x64, 0x88, 0xb5}, payload)
	for _, frame := range [][]byte{plain, tagged} {
		if err := far.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.WaitFrames(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]byte{plain, tagged}, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	if err := c.Send(plain); err != nil {
		t.Fatal(err)
	}
	if got, err = far.WaitFrames(t.Context(), 1); err != nil || !bytes.Equal(got[0], plain) {
		t.Errorf("the other way: %x, %v", got, err)
	}
	if n := len(c.Frames()); n != 2 {
		t.Errorf("%d frames on the near end, want 2: its own do not come back", n)
	}
}

func TestCableNeedsAName(t *testing.T) {
	for _, name := range []string{"", "elevenchars"} {
		if _, err := (&Namespace{}).Cable(name, 1); err == nil {
			t.Errorf("a cable named %q was made", name)
		}
	}
}

func TestRestoreTag(t *testing.T) {
	aux := make([]byte, unix.CmsgSpace(auxSize))
	binary.NativeEndian.PutUint64(aux, uint64(unix.CmsgLen(auxSize)))
	binary.NativeEndian.PutUint32(aux[8:], unix.SOL_PACKET)
	binary.NativeEndian.PutUint32(aux[12:], unix.PACKET_AUXDATA)
	data := aux[unix.CmsgLen(0):]
	binary.NativeEndian.PutUint32(data, unix.TP_STATUS_VLAN_VALID)
	binary.NativeEndian.PutUint16(data[16:], 100)
	binary.NativeEndian.PutUint16(data[18:], unix.ETH_P_8021Q)

	const addresses = "aaaaaabbbbbb"
	for _, c := range []struct {
		name, frame string
		room        int
		aux         []byte
		want        string
	}{
		{"tag goes behind the addresses", addresses + "rest", 64, aux, addresses + "\x81\x00\x00\x64rest"},
		{"no auxiliary data", addresses + "rest", 64, nil, addresses + "rest"},
		{"damaged auxiliary data", addresses + "rest", 64, aux[:9], addresses + "rest"},
		{"too short for addresses", "aaaa", 64, aux, "aaaa"},
		{"no room", addresses + "rest", 17, aux, addresses + "rest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := make([]byte, c.room)
			n := restoreTag(b, copy(b, c.frame), c.aux)
			if got := string(b[:n]); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
