package vhost

import (
	"testing"
	"time"

	"vionet/ring"
	"vionet/virtio"
)

// A ring that is stopped says where it goes on, and goes on there.
func TestB28BaseOfStoppedRings(t *testing.T) {
	const frames = 1000
	for _, tt := range []struct {
		kind virtio.Features
		// The base after frames, and after twice as many. In a packed ring of 64
		// descriptors 1000 are 15 turns and 40 descriptors, 2000 are 31 and 16;
		// after an odd number of turns the wrap counter, which begins as 1, is 0.
		first, second uint32
	}{
		{0, 1000, 2000},
		{virtio.EventIdx, 1000, 2000},
		{virtio.RingPacked, 40 | 40<<16, 16 | 16<<16},
		{virtio.RingPacked | virtio.EventIdx, 40 | 40<<16, 16 | 16<<16},
	} {
		t.Run(tt.kind.String(), func(t *testing.T) {
			b := newTestBackend(t, BackendConfig{Packed: true, Log: logTo(t)})
			g := newRawGuest(t, rawPeer(t, b), bare|tt.kind)
			g.share()
			g.start()
			for i := range frames {
				g.exchange(b, i)
			}
			for i := range g.rings {
				base := g.stopRing(i)
				if base != tt.first {
					t.Errorf("base %#x of queue %d, want %#x", base, i, tt.first)
				}
				g.describe(i, base)
			}
			g.kick()
			if !alive(g.conn) {
				t.Fatal("the rings cannot go on")
			}
			for i := range frames {
				g.exchange(b, frames+i)
			}
			for i := range g.rings {
				if base := g.stopRing(i); base != tt.second {
					t.Errorf("base %#x of queue %d, want %#x", base, i, tt.second)
				}
			}
		})
	}
}

// With protocol features a ring waits until it is enabled, in whatever order;
// without them it runs from its kick on.
func TestB28RingsRunWhenEnabled(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		b := newTestBackend(t, BackendConfig{Packed: true})
		g := newRawGuest(t, rawPeer(t, b), bare|kind|virtio.VhostUserProtocolFeatures)
		g.share()
		say := func(what string, want bool, messages ...message) {
			t.Helper()
			for _, m := range messages {
				g.tell(m)
			}
			if !alive(g.conn) || b.TxQueue(0).Running() != want {
				t.Errorf("%v, %s: the queue runs: %v, want %v", kind, what, !want, want)
			}
		}
		enable := func(on uint32) message { return message{request: setVringEnable, state: vringState{1, on}} }
		kick := message{request: setVringKick, u64: vringNoFD | 1}
		g.place()
		say("kicked", false, kick)
		say("enabled", true, enable(1))
		say("disabled", false, enable(0))
		say("enabled again", true, enable(1))
		g.stopRing(1)
		say("stopped", false)
		g.placeRing(1)
		say("kicked while it is enabled", true, kick)
		g.conn.sock.Close()
		checkServed(t, b, bare|kind) // without protocol features
	}
}

// An answer that was not agreed on would be taken for that of the next message.
func TestB27AcknowledgesOnlyWhereNegotiated(t *testing.T) {
	b := newTestBackend(t, BackendConfig{})
	c := rawPeer(t, b)
	limit := time.AfterFunc(10*time.Second, func() { c.sock.Close() })
	defer limit.Stop()
	for _, m := range []message{
		{request: setOwner}, {request: setFeatures, u64: uint64(bare)}, {request: setVringNum, state: vringState{0, 64}},
		{request: setVringEnable, state: vringState{0, 1}}, {request: setVringKick, u64: vringNoFD},
	} {
		m.flags = flagNeedReply
		if err := c.send(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.send(message{request: getQueueNum, flags: flagNeedReply}); err != nil {
		t.Fatal(err)
	}
	// The one that has an answer of its own has that, and no second one.
	if m, _, err := c.receive(); err != nil || m.request != getQueueNum || m.u64 != 1 {
		t.Errorf("the first answer is %+v, %v", m, err)
	}
	if err := c.send(message{request: getVringBase, state: vringState{0, 0}, flags: flagNeedReply}); err != nil {
		t.Fatal(err)
	}
	if m, _, err := c.receive(); err != nil || m.request != getVringBase {
		t.Errorf("the second answer is %+v, %v", m, err)
	}
}

// The notes of a packed ring are for the back end that comes next, which goes on
// by them whatever base it is told.
func TestB29NextBackendGoesOnByNotes(t *testing.T) {
	size := 2 * inflightStride(rigSize)
	notes := memfd(t, int64(size))
	g := newRawGuest(t, nil, bare|virtio.RingPacked)
	for i := range g.rings {
		g.freshRing(i)
	}
	for round := range 100 {
		b := newTestBackend(t, BackendConfig{Packed: true})
		g.conn = rawPeer(t, b)
		g.share()
		g.tell(message{request: setInflightFD, inflight: inflightArea{size: uint64(size), queues: 2, queueSize: rigSize}}, notes)
		for i := range g.rings {
			g.describe(i, ring.FreshPacked) // which the notes know better
		}
		g.kick()
		if !alive(g.conn) {
			t.Fatal("the rings did not start")
		}
		for i := range 7 {
			g.exchange(b, 7*round+i)
		}
		g.conn.sock.Close() // as at a death: nobody asks for the base
		b.Close()
	}
}
