package vhost

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/virtio"
)

// A reset stops the rings and forgets all but the memory; the front end sets the
// device up anew. Nothing is left open.
func TestResets(t *testing.T) {
	for _, r := range []request{resetOwner, resetDevice} {
		d := newDirect(t, BackendConfig{})
		d.share()
		fds, mappings := countFDs(t), countMappings(t)
		buffer := d.alloc(4096)
		for round := range 3 {
			d.must(d.say(message{request: setProtocolFeatures, u64: uint64(protocolReplyAck)}))
			d.must(d.say(message{request: setInflightFD, inflight: inflightArea{size: 8192, queues: 2, queueSize: rigSize}}, memfd(t, 8192)))
			fds++ // the test's own
			d.start(virtio.VhostLogAll)
			for i := range uint64(2) {
				event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
				d.must(err)
				d.must(d.say(message{request: setVringKick, u64: i}, event))
				d.must(d.say(message{request: setVringCall, u64: i}, event))
				unix.Close(event)
			}
			a, log := newLog(t, 4096, 0)
			fds++ // the test's own
			d.must(d.say(message{request: setLogBase, log: a}, log))
			frame := frameOf(round, 80)
			copy(buffer.Bytes[12:], frame)
			d.offer(1, buffer, 0, 12+len(frame), 0)
			if got, ok := d.dequeue(); !ok || !bytes.Equal(got, frame) {
				t.Fatalf("round %d: %x, %v", round, got, ok)
			}
			d.must(d.say(message{request: r}))
			if d.running(0) || d.running(1) {
				t.Errorf("a ring runs after %v", r)
			}
			if d.s.features != 0 || d.s.settled || d.s.mem.empty() || !d.s.protocol.has(protocolReplyAck) {
				t.Errorf("%v left features %v, memory %v, protocol features %#x", r, d.s.features, d.s.mem.regions, d.s.protocol)
			}
			if n := countFDs(t); n != fds {
				t.Errorf("%d descriptors after %v, want %d", n, r, fds)
			}
			if n := countMappings(t); n != mappings {
				t.Errorf("%d mappings after %v, want %d", n, r, mappings)
			}
			// Without features nothing runs, whatever else is said.
			d.must(d.say(message{request: setVringKick, u64: vringNoFD}))
			if d.running(0) {
				t.Error("a ring runs without features")
			}
		}
	}
}
