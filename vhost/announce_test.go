package vhost

import (
	"bytes"
	"context"
	"encoding/hex"
	"testing"
	"time"

	"vionet/driver"
	"vionet/port"
)

// rarpWire is the announcement of 52:54:00:12:34:56, written by hand: broadcast,
// from that address, type 0x8035; Ethernet, IPv4, 6 and 4 bytes, request; the
// address as sender and as target, both without an IP address; 18 bytes of
// padding.
const rarpWire = "ffffffffffff" + "525400123456" + "8035" + "0001" + "0800" + "06" + "04" + "0003" +
	"525400123456" + "00000000" + "525400123456" + "00000000" + "000000000000000000000000000000000000"

// The port receives the announcement once, in a burst of its own or out of its
// sleep, and then the guest's frames.
func TestPortReceivesAnnouncement(t *testing.T) {
	want, err := hex.DecodeString(rarpWire)
	if err != nil {
		t.Fatal(err)
	}
	r := newPortRig(t, PortConfig{}, port.Config{RxInterrupts: true})
	g := startGuest(t, r.path, driver.Options{}, port.Config{})
	rx := r.port.RxQueue(0)
	eventually(t, "the link", func() bool { return r.port.Link().Up })
	b := r.port.(*vhostPort).backend
	s := newSession(b, nil)
	if _, err := s.handle(message{request: sendRARP, u64: 0xffff_563412005452}, nil); err != nil {
		t.Fatal(err)
	}
	if n := rx.Burst(nil); n != 0 {
		t.Errorf("%d packets without room for one", n)
	}
	got := receive(t, rx)
	if !bytes.Equal(bytesOf(got), want) {
		t.Errorf("received\n%x, want\n%x", bytesOf(got), want)
	}
	got.Free()
	quiet(t, rx)
	got = pass(t, g.port.TxQueue(0), rx, packetOf(t, g.pool, frameOf(3, 60), 2048))
	if !bytes.Equal(bytesOf(got), frameOf(3, 60)) {
		t.Errorf("received %x", bytesOf(got))
	}
	got.Free()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	waited := make(chan error)
	go func() { waited <- rx.(*portRx).Wait(ctx) }()
	b.announce(0)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	receive(t, rx).Free()
	if stats := r.port.Stats(); stats.Rx[0].Packets != 3 || stats.Rx[0].Bytes != 180 {
		t.Errorf("%+v", stats.Rx[0])
	}
}
