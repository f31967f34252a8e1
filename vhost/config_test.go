package vhost

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/port"
	"vionet/virtio"
)

// readSpace reads the whole configuration space.
func readSpace(tb testing.TB, f *Frontend) (space [configSize]byte) {
	tb.Helper()
	if err := f.ReadConfig(0, space[:]); err != nil {
		tb.Fatal(err)
	}
	return space
}

// The back end's address, MTU and link reach the driver.
func TestConfigOfTheBackEnd(t *testing.T) {
	b, f := listenAndDial(t, BackendConfig{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 7}, MTU: 9000}, FrontendConfig{})
	offered, err := f.Features()
	if err != nil || !offered.Has(virtio.NetMAC|virtio.NetMTU|virtio.NetStatus) {
		t.Errorf("offered %v, %v", offered, err)
	}
	want := [configSize]byte{2, 0, 0, 0, 0, 7, 1, 0, 1, 0, 0x28, 0x23}
	if got := readSpace(t, f); got != want {
		t.Errorf("configuration %x, want %x", got, want)
	}
	changed := make(chan struct{}, 8)
	f.Watch(func() { changed <- struct{}{} })
	for _, up := range []bool{false, true, true, false} {
		b.SetLink(up)
		want := byte(0)
		if up {
			want = 1
		}
		eventually(t, "the link's new state", func() bool { return readSpace(t, f)[6] == want })
	}
	for range 2 { // changes that follow each other may be one event
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatal("the driver was not told of the link")
		}
		if len(changed) == 0 {
			break
		}
	}
	if err := f.WriteConfig(0, []byte{2, 1, 1, 1, 1, 1}); err != nil {
		t.Error(err)
	}
	if got := readSpace(t, f); !bytes.Equal(got[:6], []byte{2, 1, 1, 1, 1, 1}) {
		t.Errorf("address %x after it was written", got[:6])
	}
	for _, bad := range []struct{ off, n int }{{1, 6}, {0, 5}, {6, 2}, {-1, 1}, {12, 1}} {
		if f.WriteConfig(bad.off, make([]byte, bad.n)) == nil {
			t.Errorf("%d bytes at %d were written", bad.n, bad.off)
		}
	}
	// What is known stays known when the back end goes, but for the link.
	b.Close()
	eventually(t, "the link going down", func() bool { return readSpace(t, f)[6] == 0 })
	if got := readSpace(t, f); got[0] != 2 || got[10] != 0x28 {
		t.Errorf("configuration %x without a back end", got)
	}
}

// The front end's own address and MTU come first, and the back end hears of the
// MTU.
func TestConfigOfTheFrontEnd(t *testing.T) {
	b, f := listenAndDial(t, BackendConfig{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 7}, MTU: 9000},
		FrontendConfig{QueueSize: rigSize, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 8}, MTU: 1400})
	if got, want := readSpace(t, f), [configSize]byte{2, 0, 0, 0, 0, 8, 1, 0, 1, 0, 0x78, 0x05}; got != want {
		t.Errorf("configuration %x, want %x", got, want)
	}
	r := newRig(t, f, 1)
	r.start(plain|virtio.NetMTU, 1)
	eventually(t, "the back end hearing of the MTU", func() bool { return b.MTU() == 1400 })
	for _, bad := range []BackendConfig{{MTU: 67}, {MTU: 65536}, {MAC: net.HardwareAddr{1}}} {
		if _, err := newBackend(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if _, err := Dial("", FrontendConfig{MTU: 67}); err == nil {
		t.Error("an MTU of 67")
	}
}

// A back end without the messages: the front end does without.
func TestConfigIsMissing(t *testing.T) {
	s, sock := newScripted(t, dpdkFeatures, 0x10cbf)
	f := scriptedFrontend(t, s, sock, FrontendConfig{MTU: 2000})
	if offered, _ := f.Features(); !offered.Has(virtio.NetMTU) {
		t.Errorf("offered %v", offered)
	}
	if err := f.WriteConfig(0, make([]byte, 6)); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("WriteConfig: %v, want ErrNotSupported", err)
	}
	f.SetStatus(virtio.StatusDriver)
	s.trace()
	if err := f.SetFeatures(virtio.Version1 | virtio.NetMTU); err != nil {
		t.Error(err)
	}
	want := []string{"SET_VRING_CALL 0x0", "SET_VRING_CALL 0x1", "SET_FEATURES 0x140000008", "NET_SET_MTU 0x7d0"}
	if diff := cmp.Diff(want, s.trace()); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// Answers about the configuration that make no sense are errors.
func TestB27BadConfiguration(t *testing.T) {
	for name, answer := range map[string]configSpace{
		"refused": {}, "short": {bytes: make([]byte, 11)}, "another piece": {offset: 1, bytes: make([]byte, configSize)},
	} {
		s, sock := newScripted(t, dpdkFeatures|virtio.NetMAC, protocolConfig|protocolReplyAck)
		s.answers[getConfig] = func(message) message { return message{config: answer} }
		f := scriptedFrontend(t, s, sock, FrontendConfig{})
		if err := f.ReadConfig(0, make([]byte, 6)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What the back end sends of its own accord.
func TestBackendRequests(t *testing.T) {
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	_, f := listenAndDial(t, BackendConfig{}, FrontendConfig{QueueSize: rigSize})
	r := newRig(t, f, 1)
	r.events = true
	r.start(plain, 1)
	event, err := f.QueueEvent(0)
	r.must(err)
	reader := readRequests(&conn{sock: ours, timeout: 100 * time.Millisecond}, f.handleRequest)
	defer reader.close()
	peer := &conn{sock: theirs, timeout: 5 * time.Second}
	vring := func(index byte) []byte { return []byte{index, 0, 0, 0, 0, 0, 0, 0} }
	for _, tt := range []struct {
		request uint32
		body    []byte
		want    byte
	}{
		{2, nil, 0}, {4, vring(0), 0}, {5, vring(1), 0}, {4, vring(2), 1}, {5, vring(255), 1},
		{1, make([]byte, 40), 1}, {3, make([]byte, 24), 1}, {99, nil, 1},
	} {
		if err := peer.sendRaw(tt.request, flagVersion|flagNeedReply, tt.body); err != nil {
			t.Fatal(err)
		}
		h, body, fds, err := peer.receiveRaw()
		if err != nil || uint32(h.request) != tt.request || h.flags != flagVersion|flagReply || len(body) != 8 || body[0] != tt.want || fds != nil {
			t.Errorf("message %d: %+v %x, %v, want %d", tt.request, h, body, err, tt.want)
		}
	}
	if err := event.Wait(t.Context()); err != nil {
		t.Errorf("the call of queue 0: %v", err)
	}
	// What is no message ends it.
	theirs.Write(make([]byte, headerSize))
	<-reader.done
}
