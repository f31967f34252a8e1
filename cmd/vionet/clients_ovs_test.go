package main

import (
	"bytes"
	"strings"
	"testing"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/scripts/lab"
	"vionet/vhost"
	"vionet/virtio"
)

// TestOpenVSwitch has two of our front ends on a bridge of Open vSwitch with
// DPDK: what one sends to the other arrives there once, byte by byte, before
// and after the switch was killed and started again.
func TestOpenVSwitch(t *testing.T) {
	lab.Need(t, "ovs", "net", "root")
	for _, c := range []struct {
		name string
		mask virtio.Features
	}{
		{"split", virtio.RingPacked},
		{"packed", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			sockets := []string{socketPath(t), socketPath(t)}
			ovs := lab.Switch(t, sockets...)
			near, far := newSwitchedPort(t, sockets[0], c.mask), newSwitchedPort(t, sockets[1], c.mask)
			if path := near.port.Paths().Rx.Name; strings.Contains(path, "packed") != (c.mask == 0) {
				t.Errorf("the receive path is %s", path)
			}
			printCell("Open vSwitch, dpdkvhostuserclient, "+c.name, "%d exchanged", exchange(near, far))

			if err := ovs.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, p := range []*heldPort{near, far} {
				if c.mask == 0 {
					p.restart()
				}
				eventually(t, "the link", func() bool { return p.port.Link().Up })
			}
			printCell("Open vSwitch, dpdkvhostuserclient, "+c.name+", after a restart", "%d exchanged", exchange(near, far))
		})
	}
}

// newSwitchedPort opens a front end that listens on the socket for the switch.
func newSwitchedPort(t *testing.T, socket string, mask virtio.Features) *heldPort {
	t.Helper()
	f, err := vhost.Dial(socket, vhost.FrontendConfig{Server: true, Mask: mask})
	if err != nil {
		t.Fatal(err)
	}
	p, err := driver.Open(f, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	held := hold(t, p, 1)
	return &held
}

// restart starts the port anew, as soon as there is a switch: a packed
// virtqueue cannot go on before a new back end.
func (e *heldPort) restart() {
	e.t.Helper()
	if err := e.port.Stop(); err != nil {
		e.t.Fatal(err)
	}
	eventually(e.t, "a new switch", func() bool { return e.port.Start() == nil })
}

// exchange sends frames both ways, wants each at the other port, and gives
// their number. Ahead of them it sends others until the first arrives: the
// switch drops what comes before it is ready.
func exchange(near, far *heldPort) (total int) {
	near.t.Helper()
	for _, way := range []struct{ from, to *heldPort }{{near, far}, {far, near}} {
		hello := addressed(way.from, way.to, plainFrame(0, 60))
		eventually(near.t, "a first frame through the switch", func() bool {
			way.from.send(0, [][]byte{hello})
			return way.to.drain() > 0
		})
	}
	near.settle()
	far.settle()
	for round := range rounds {
		for _, way := range []struct{ from, to *heldPort }{{near, far}, {far, near}} {
			frames := make([][]byte, roundOfOne)
			for i := range frames {
				frames[i] = addressed(way.from, way.to, plainFrame(total+i, 60+(7*total+311*i)%1455))
			}
			way.from.send(0, frames)
			way.to.receive(0, len(frames), func(i int, _ *mbuf.Buf, frame []byte) {
				if !bytes.Equal(frame, frames[i]) {
					near.t.Fatalf("round %d, frame %d: %d bytes\n% x\nwant %d bytes\n% x", round, i, len(frame), frame[:60], len(frames[i]), frames[i][:60])
				}
			})
			total += len(frames)
		}
	}
	return total
}

// addressed is the frame with the addresses of two ports.
func addressed(from, to *heldPort, frame []byte) []byte {
	copy(frame, to.port.Info().MAC)
	copy(frame[6:], from.port.Info().MAC)
	return frame
}
