package driver_test

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/virtio"
)

// ledger is where each frame of a UMEM is, as the application may believe: its
// own, or given away at an address.
type ledger struct {
	*xskRig
	away map[uint64]uint64 // by number of the frame, the address that was submitted
	held []fakedev.Frame   // with the device
}

// TestXSKAccounting has an application, a device and a port that stops and
// starts do what they like, in any order: every frame is in exactly one place.
func TestXSKAccounting(t *testing.T) {
	kinds := append(ringKinds, inOrderKinds...)
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(rt, "kind")
		offer := fakedev.DefaultFeatures | virtio.RingReset | kind.offer
		kind.opts.NoSimpleTx = rapid.Bool().Draw(rt, "standard path")
		l := &ledger{away: map[uint64]uint64{}, xskRig: startXSK(t, xskRigConfig{
			rigConfig: rigConfig{dev: fakedev.Config{Offered: offer, QueueSize: 16}, opts: kind.opts},
			umem:      driver.UMEMConfig{CompletionSize: rapid.SampledFrom([]int{4, 64}).Draw(rt, "completion ring")},
			xsk:       driver.XSKConfig{TxSize: 32},
		})}
		rt.Repeat(map[string]func(*rapid.T){
			"submit":   l.submitSome,
			"twice":    l.submitTwice,
			"poll":     func(*rapid.T) { l.xsk.Poll() },
			"take":     func(*rapid.T) { l.held = append(l.held, l.takeSent()...) },
			"complete": func(rt *rapid.T) { l.completeSome(rt, kind.opts.InOrder) },
			"collect":  l.collect,
			"restart":  func(rt *rapid.T) { l.restart(rt, l.port.Restart()) },
			"reset":    func(rt *rapid.T) { l.restart(rt, l.port.ResetTxQueue(0)) },
			"": func(rt *rapid.T) {
				if n := l.xsk.Outstanding(); n > len(l.away) {
					rt.Fatalf("%d frames are outstanding, the application gave %d away", n, len(l.away))
				}
			},
		})
		// The device goes on until all are back: each round takes a descriptor at
		// least of those that there can be, or brings one back.
		for range 2 * l.xsk.Tx.Size() {
			l.xsk.Poll()
			l.held = append(l.held, l.takeSent()...)
			l.check(rt, l.held)
			for _, f := range l.held {
				l.use(f)
			}
			l.held = nil
			l.collect(rt)
		}
		if len(l.away) != 0 || l.xsk.Outstanding() != 0 {
			rt.Fatalf("%d frames never came back, %d are outstanding", len(l.away), l.xsk.Outstanding())
		}
	})
}

// submitSome sends frames that are the application's, well described or not, and
// descriptors that name no frame.
func (l *ledger) submitSome(rt *rapid.T) {
	for range min(rapid.IntRange(1, 8).Draw(rt, "burst"), l.xsk.Tx.Free()-1) {
		number := rapid.Uint64Range(0, 63).Draw(rt, "frame")
		d := driver.XSKDesc{Addr: number*2048 + rapid.Uint64Range(0, 200).Draw(rt, "offset"), Len: 60}
		if _, away := l.away[number]; away {
			d.Addr += 64 * 2048
		} else {
			copy(l.umem.Data(d.Addr, 60), frame(60, byte(number)))
			l.away[number] = d.Addr
		}
		if rapid.IntRange(0, 9).Draw(rt, "fault") == 0 {
			d.Len = rapid.SampledFrom([]uint32{0, 4000}).Draw(rt, "length")
		}
		if rapid.IntRange(0, 9).Draw(rt, "more") == 0 {
			d.Options = driver.XSKContinued
		}
		l.submit(d)
	}
	if l.xsk.Tx.Free() > 0 {
		l.submit(driver.XSKDesc{Addr: 64 * 2048, Len: 1}) // ends a frame that goes on
	}
}

// submitTwice submits a frame that the device has: it is refused.
func (l *ledger) submitTwice(rt *rapid.T) {
	l.collect(rt)
	if len(l.held) == 0 || l.xsk.Tx.Free() < l.xsk.Tx.Size() || l.umem.Completion.Size() < 64 {
		rt.Skip("nothing to send twice")
	}
	first := l.held[0].Chain.Buffers
	at := first[len(first)-1].Addr - l.base()
	before := l.xsk.Stats().TxInvalid
	l.submit(driver.XSKDesc{Addr: at, Len: 60})
	l.xsk.Poll()
	if n := l.xsk.Stats().TxInvalid - before; n != 1 {
		rt.Fatalf("%d descriptors were refused: %v", n, l.xsk.Err())
	}
}

// inTransmission reports whether the device surely has the frame.
func (l *ledger) inTransmission(number uint64) bool {
	for _, f := range l.held {
		for _, b := range f.Chain.Buffers {
			if (b.Addr-l.base())>>11 == number {
				return true
			}
		}
	}
	return false
}

func (l *ledger) completeSome(rt *rapid.T, inOrder bool) {
	l.check(rt, l.held)
	for n := rapid.IntRange(0, len(l.held)).Draw(rt, "completions"); n > 0; n-- {
		i := 0
		if !inOrder {
			i = rapid.IntRange(0, len(l.held)-1).Draw(rt, "which")
		}
		l.use(l.held[i])
		l.held = append(l.held[:i], l.held[i+1:]...)
	}
}

// check looks at what the device has: the frames as they were written.
func (l *ledger) check(rt *rapid.T, frames []fakedev.Frame) {
	for _, f := range frames {
		for data := f.Data; len(data) > 0; data = data[60:] {
			if len(data)%60 != 0 || !bytes.Equal(data[:60], frame(60, data[0])) {
				rt.Fatalf("the device reads %x", f.Data)
			}
		}
	}
}

// collect takes completions: of frames that are away, each at its address.
func (l *ledger) collect(rt *rapid.T) {
	for _, addr := range l.completed() {
		number := addr >> 11
		if submitted, away := l.away[number]; !away || submitted != addr {
			rt.Fatalf("completed %#x of frame %d, which is away: %v (at %#x)", addr, number, away, submitted)
		}
		if l.inTransmission(number) {
			rt.Fatalf("completed frame %d, which the device has", number)
		}
		delete(l.away, number)
	}
}

// restart forgets what the device had: it was reset.
func (l *ledger) restart(rt *rapid.T, err error) {
	if err != nil {
		rt.Fatal(fmt.Errorf("restart: %w", err))
	}
	l.held = nil
}

// FuzzXSKDescriptors submits whatever descriptors: what the device reads lies
// in one frame each, and every frame of the application's comes back, once.
func FuzzXSKDescriptors(f *testing.F) {
	f.Add([]byte{0, 0, 128, 0, 60, 0, 0, 0})
	f.Add([]byte{0, 0, 128, 0, 60, 0, 1, 0, 0, 0, 128, 8, 60, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 1, 0xff, 0xff, 1, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 2, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := startXSK(t, xskRigConfig{})
		submitted := map[uint64]int{} // by address, how often
		for ; len(data) >= 8; data = data[8:] {
			if r.xsk.Tx.Reserve(1) == 0 {
				break
			}
			d := fuzzDesc(data)
			*r.xsk.Tx.Slot(0) = d
			r.xsk.Tx.Submit(1)
			submitted[d.Addr]++
		}
		first, end := r.base(), r.base()+uint64(len(r.umem.Bytes()))
		seen := map[uint64]bool{}
		for range 4 {
			r.xsk.Poll()
			for _, f := range r.takeSent() {
				for _, b := range f.Chain.Buffers {
					inside := b.Addr >= first && b.Addr < end
					if inside && (b.Addr-first)>>11 != (b.Addr-first+uint64(len(b.Bytes))-1)>>11 {
						t.Errorf("the device reads %d bytes at %#x", len(b.Bytes), b.Addr-first)
					}
				}
				r.use(f)
			}
			for _, addr := range r.completed() {
				if submitted[addr]--; submitted[addr] < 0 {
					t.Errorf("%#x came back more often than it was submitted", addr)
				}
				seen[addr>>11] = true
			}
		}
		for addr := range submitted {
			if addr < 64*2048 && !seen[addr>>11] && r.xsk.Outstanding() == 0 {
				t.Errorf("the frame at %#x never came back", addr)
			}
		}
	})
}

// fuzzDesc makes a descriptor of 8 bytes: an address that is mostly within the
// UMEM, a length and options.
func fuzzDesc(b []byte) driver.XSKDesc {
	addr := uint64(b[3])<<8 | uint64(b[2]) | uint64(b[1]&3)<<16
	if b[0]&0x80 != 0 {
		addr |= uint64(b[0]) << 56
	}
	return driver.XSKDesc{Addr: addr, Len: uint32(b[5])<<8 | uint32(b[4]) | uint32(b[7])<<24, Options: driver.XSKOptions(b[6])}
}
