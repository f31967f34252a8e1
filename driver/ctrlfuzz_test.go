package driver_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/virtio"
)

// FuzzControlAnswers lets the device answer commands in any way that there is,
// true or not: five bytes of the input are what it does at one command. Every
// command comes back in time, none succeeds without an OK for it, and the port
// works again after a stop.
func FuzzControlAnswers(f *testing.F) {
	f.Add(false, []byte{0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 2, 0, 0, 0, 0})
	f.Add(true, []byte{3, 0, 0, 0, 0, 4, 0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff})
	f.Add(false, []byte{5, 0, 0, 0, 0x80, 6, 3, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(true, []byte{3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4, 2, 0, 0, 0, 4, 0, 0, 0, 0})
	f.Add(true, []byte{6, 99, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(false, []byte{7, 2, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, packed bool, moves []byte) {
		c := rigConfig{opts: driver.Options{ControlTimeout: 2 * time.Millisecond}, buffers: 300}
		if packed {
			c.dev.Offered = virtio.RingPacked
		}
		r := ctrlRig(t, c)
		dev := &liar{dev: r.dev}
		r.dev.OnControl(dev.answer)
		for len(moves) >= 5 && len(moves) < 200 {
			dev.move, moves = moves[:5], moves[5:]
			dev.ok = false
			start := time.Now()
			err := r.port.SetAllMulticast(true)
			if err == nil && !dev.ok {
				t.Fatal("a command succeeded that the device did not answer with OK")
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Fatalf("a command took %v", took)
			}
		}
		r.dev.OnControl(nil)
		if err := errors.Join(r.port.Stop(), r.port.Start(), r.port.SetPromiscuous(true)); err != nil {
			t.Fatal(err)
		}
	})
}

// liar answers commands as the bytes of its move say.
type liar struct {
	dev  *fakedev.Device
	move []byte
	ok   bool // the command may have been answered with OK
	late []fakedev.Command
}

func (l *liar) answer(c fakedev.Command) fakedev.Answer {
	value := binary.LittleEndian.Uint32(l.move[1:])
	queue := l.dev.ControlQueue()
	never := fakedev.Answer{Never: true}
	switch l.move[0] % 8 {
	case 0:
		l.ok = true
		return fakedev.Answer{}
	case 1:
		l.ok = l.move[1] == virtio.CtrlOK
		return fakedev.Answer{Status: l.move[1]}
	case 2:
		return fakedev.Answer{Untouched: true}
	case 3:
		l.late = append(l.late, c)
		return never
	case 4: // an earlier command
		if len(l.late) > 0 {
			i := int(value) % len(l.late)
			l.dev.Answer(l.late[i], virtio.CtrlOK)
			l.late = append(l.late[:i], l.late[i+1:]...)
		}
		return never
	case 5: // any chain, any length
		l.late = append(l.late, c)
		queue.Use(value, value)
		return never
	case 6: // used entries from nowhere
		l.late = append(l.late, c)
		queue.SkipUsed(int(value % 100))
		return never
	default: // the same one over and over
		l.ok = true
		l.dev.Answer(c, virtio.CtrlOK)
		for range value % 5 {
			l.dev.Answer(c, virtio.CtrlOK)
		}
		return never
	}
}
