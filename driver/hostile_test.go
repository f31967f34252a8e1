package driver_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

func TestB23RingRulesPoisonTheQueue(t *testing.T) {
	tests := []struct {
		name  string
		rx    bool
		field string
		lie   func(q *fakedev.Queue, head uint32) // of one buffer; Tx has two
		// packed: the lie makes sense in a packed virtqueue, too, whose ids
		// have 16 bits and which has no index.
		packed bool
	}{
		{"tx id equal to the size", false, "used id", func(q *fakedev.Queue, _ uint32) { q.Use(256, 0) }, true},
		{"tx id 65535", false, "used id", func(q *fakedev.Queue, _ uint32) { q.Use(65535, 0) }, false},
		{"tx id 2^31", false, "used id", func(q *fakedev.Queue, _ uint32) { q.Use(1<<31, 0) }, false},
		{"tx id that wraps 16 bits to a right one", false, "used id", func(q *fakedev.Queue, h uint32) { q.Use(h+1<<16, 0) }, false},
		{"tx id never handed out", false, "used id", func(q *fakedev.Queue, h uint32) { q.Use((h+100)%256, 0) }, true},
		{"tx id twice", false, "used id", func(q *fakedev.Queue, h uint32) { q.Use(h, 0); q.Use(h, 0) }, false},
		{"tx index jumps by size + 1", false, "used index", func(q *fakedev.Queue, _ uint32) { q.SkipUsed(257) }, false},
		{"tx index jumps by 3", false, "used index", func(q *fakedev.Queue, _ uint32) { q.SkipUsed(3) }, false},
		{"rx id 65535", true, "used id", func(q *fakedev.Queue, _ uint32) { q.Use(65535, 64) }, false},
		{"rx id twice", true, "used id", func(q *fakedev.Queue, h uint32) { q.Use(h, 64); q.Use(h, 64) }, false},
		{"rx index jumps by size + 1", true, "used index", func(q *fakedev.Queue, _ uint32) { q.SkipUsed(257) }, false},
		{"rx length one above the buffer", true, "used length", func(q *fakedev.Queue, h uint32) { q.Use(h, 2060+1) }, true},
		{"rx length 2^32 - 1", true, "used length", func(q *fakedev.Queue, h uint32) { q.Use(h, 1<<32-1) }, true},
	}
	for _, tt := range tests {
		for _, kind := range ringKinds {
			if kind.offer.Has(virtio.RingPacked) && !tt.packed {
				continue
			}
			t.Run(kind.name+"/"+tt.name, func(t *testing.T) {
				r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: kind.opts})
				events := make(chan port.Event, 4)
				r.port.Notify(func(e port.Event) { events <- e })
				index := virtio.TxQueue(0)
				if tt.rx {
					index = virtio.RxQueue(0)
				}
				q := r.dev.Queue(index)
				if !tt.rx {
					r.tx().Burst([]*mbuf.Buf{r.packet(frame(64, 1)), r.packet(frame(64, 2))})
				}
				c, err := q.Take()
				if err != nil {
					t.Fatal(err)
				}
				tt.lie(q, uint32(c.Head))
				for range 3 {
					r.receive(32)
					r.tx().Reclaim()
				}
				err = r.tx().Err()
				if tt.rx {
					err = r.rx().Err()
				}
				var rule *ring.RuleError
				if !errors.As(err, &rule) || rule.Field != tt.field {
					t.Fatalf("Err: %v, want a rule about the %s", err, tt.field)
				}
				select {
				case e := <-events:
					if e != port.NeedsReset {
						t.Errorf("event %v, want NeedsReset", e)
					}
				case <-time.After(5 * time.Second):
					t.Error("nobody was told")
				}
				if n := strings.Count(r.log.String(), "has stopped"); n != 1 {
					t.Errorf("reported %d times", n)
				}
				if !tt.rx {
					b := r.packet(frame(64, 1))
					if n := r.tx().Burst([]*mbuf.Buf{b}); n != 0 {
						t.Error("a broken queue took a packet")
					} else {
						b.Free()
					}
				}
				// Stop and start bring the port back.
				if err := r.port.Stop(); err != nil {
					t.Fatal(err)
				}
				if free := r.pool.Free(); free != r.pool.Size() {
					t.Errorf("%d of %d buffers are free", free, r.pool.Size())
				}
				if err := r.port.Start(); err != nil {
					t.Fatal(err)
				}
				r.complete(r.send(r.packet(frame(64, 1))))
				if err := r.tx().Err(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestB23BadPacketsAreDropped(t *testing.T) {
	tests := []struct {
		name       string
		length     uint32
		numBuffers uint16
		broken     bool
	}{
		{"length 0", 0, 1, false},
		{"length below the header's", 11, 1, false},
		{"header only", 12, 1, false},
		{"less than an Ethernet header", 12 + 13, 1, false},
		{"num_buffers 0", 76, 0, false},
		{"num_buffers more than the ring has", 76, 257, true},
		{"num_buffers 65535", 76, 65535, true},
	}
	for i, tt := range slices.Concat(tests, tests) {
		kind := ringKinds[i/len(tests)*2] // split, then packed
		t.Run(kind.name+"/"+tt.name, func(t *testing.T) {
			r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: kind.opts})
			q := r.dev.Queue(virtio.RxQueue(0))
			c, err := q.Take()
			if err != nil {
				t.Fatal(err)
			}
			hdr := virtio.NetHeader{NumBuffers: tt.numBuffers}
			hdr.Encode(c.Buffers[0].Bytes)
			q.Use(uint32(c.Head), tt.length)
			if got := r.receive(32); len(got) != 0 {
				t.Fatalf("%d packets were delivered", len(got))
			}
			if s := r.port.Stats(); s.RxErrors != 1 {
				t.Errorf("%d errors, want 1", s.RxErrors)
			}
			if got := r.rx().Err() != nil; got != tt.broken {
				t.Fatalf("Err: %v", r.rx().Err())
			}
			if tt.broken {
				return
			}
			if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(64, 1)); err != nil {
				t.Fatal(err)
			}
			compareFrames(t, r.receive(32), [][]byte{frame(64, 1)})
		})
	}
}

func TestB23QueueSizesOfTheDeviceAreChecked(t *testing.T) {
	for size, want := range map[int]string{-1: "no virtqueue 0", 100: "100", 65535: "65535", 65536: "65536"} {
		r := newRig(t, rigConfig{dev: fakedev.Config{QueueSize: size}})
		err := r.port.Start()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("size %d: Start says %v, want %q in it", size, err, want)
		}
	}
}

// FuzzB23Receive is a device that writes what it likes into receive buffers
// and used entries. Three bytes of input are one used buffer: which of those
// that it has taken, and the length; twelve more are its header.
func FuzzB23Receive(f *testing.F) {
	f.Add([]byte{0, 76, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, true)
	f.Add([]byte{0, 76, 0, 1, 1, 54, 0, 100, 0, 34, 0, 16, 0, 2, 0, 1, 0, 8}, true)
	f.Add([]byte{200, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, false)
	f.Fuzz(func(t *testing.T, moves []byte, mergeable bool) {
		c := rigConfig{buffers: 300, port: port.Config{RxOffloads: port.RxTCPCksum | port.RxVLANStrip}}
		c.opts.NoMergeable = !mergeable
		if mergeable {
			c.port.RxOffloads |= port.RxTCPLRO
		}
		r := startRig(t, c)
		q := r.dev.Queue(virtio.RxQueue(0))
		written := 0
		for len(moves) >= 15 {
			c, err := q.Take()
			if err != nil {
				break
			}
			length := uint32(moves[1]) | uint32(moves[2])<<8
			copy(c.Buffers[0].Bytes, moves[3:15])
			head := uint32(c.Head) + uint32(moves[0])
			q.Use(head, length)
			written += int(length)
			moves = moves[15:]
			for _, f := range r.receive(32) {
				if written -= len(f); written < 0 {
					t.Fatal("more was delivered than the device wrote")
				}
			}
		}
	})
}
