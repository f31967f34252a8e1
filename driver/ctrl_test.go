package driver_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/port"
	"vionet/virtio"
)

// ctrlFeatures is a device with a control queue and all that it is good for.
const ctrlFeatures = fakedev.DefaultFeatures | controlFeatures | virtio.NetCtrlVLAN | virtio.NetMQ | virtio.NetRSS |
	virtio.NetHashReport | virtio.NetCtrlGuestOffloads

// bothRings runs a test on a split and on a packed virtqueue.
func bothRings(t *testing.T, f func(t *testing.T, ring virtio.Features)) {
	t.Run("split", func(t *testing.T) { f(t, 0) })
	t.Run("packed", func(t *testing.T) { f(t, virtio.RingPacked) })
}

// ctrlRig is a started port on a device with a control queue; the commands of
// the start are forgotten.
func ctrlRig(t testing.TB, c rigConfig) *rig {
	t.Helper()
	c.dev.Offered |= ctrlFeatures
	r := startRig(t, c)
	r.dev.Commands()
	return r
}

// wantCommands compares what the device was told since the last call.
func (r *rig) wantCommands(want ...fakedev.Command) {
	r.t.Helper()
	got := r.dev.Commands()
	if !slices.EqualFunc(got, want, func(a, b fakedev.Command) bool { return a.Code == b.Code && bytes.Equal(a.Data, b.Data) }) {
		r.t.Errorf("the device was told\n%s\nwant\n%s", listCommands(got), listCommands(want))
	}
}

func listCommands(list []fakedev.Command) (s string) {
	for _, c := range list {
		s += fmt.Sprintf("  %v % x\n", c.Code, c.Data)
	}
	return s
}

func told(code virtio.ControlCommand, data ...byte) fakedev.Command {
	return fakedev.Command{Code: code, Data: data}
}

func TestB16AnswersOfEveryKind(t *testing.T) {
	tests := []struct {
		name    string
		answer  fakedev.Answer
		want    error // nil: ok
		timeout time.Duration
	}{
		{"at once", fakedev.Answer{}, nil, 0},
		{"after 1 ms", fakedev.Answer{After: time.Millisecond}, nil, 0},
		{"just in time", fakedev.Answer{After: 900 * time.Millisecond}, nil, 5 * time.Second},
		{"never", fakedev.Answer{Never: true}, driver.ErrCommandTimeout, 20 * time.Millisecond},
		{"error", fakedev.Answer{Status: virtio.CtrlErr}, driver.ErrCommandRefused, 0},
		{"some other status", fakedev.Answer{Status: 77}, driver.ErrCommandRefused, 0},
		{"without a status", fakedev.Answer{Untouched: true}, driver.ErrCommandRefused, 0},
	}
	bothRings(t, func(t *testing.T, ring virtio.Features) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				r := ctrlRig(t, rigConfig{dev: fakedev.Config{Offered: ring}, opts: driver.Options{ControlTimeout: tt.timeout}})
				r.dev.OnControl(func(fakedev.Command) fakedev.Answer { return tt.answer })
				err := r.port.SetPromiscuous(true)
				if !errors.Is(err, tt.want) {
					t.Errorf("SetPromiscuous: %v, want %v", err, tt.want)
				}
				if errors.Is(err, os.ErrDeadlineExceeded) != (tt.want == driver.ErrCommandTimeout) {
					t.Errorf("%v: does it match os.ErrDeadlineExceeded?", err)
				}
				if got := r.port.Info().Promiscuous; got != (err == nil) {
					t.Errorf("promiscuous %v after %v", got, err)
				}
				r.wantCommands(told(virtio.CtrlRxPromisc, 1))
			})
		}
	})
}

// TestB16LateAnswers has the device answer a command while a later one waits:
// each command gets its own answer, and the memory of the first is left alone
// as long as the device has it.
func TestB16LateAnswers(t *testing.T) {
	bothRings(t, func(t *testing.T, ring virtio.Features) {
		r := ctrlRig(t, rigConfig{
			dev: fakedev.Config{Offered: ring}, opts: driver.Options{ControlTimeout: 20 * time.Millisecond},
		})
		r.dev.OnControl(func(fakedev.Command) fakedev.Answer { return fakedev.Answer{Never: true} })
		if err := r.port.SetAllMulticast(true); !errors.Is(err, driver.ErrCommandTimeout) {
			t.Fatalf("SetAllMulticast: %v", err)
		}
		late := r.dev.Commands()[0]
		// The later command is refused, and the first one's OK comes before that.
		r.dev.OnControl(func(c fakedev.Command) fakedev.Answer {
			r.dev.Answer(late, virtio.CtrlOK)
			return fakedev.Answer{Status: virtio.CtrlErr, After: time.Millisecond}
		})
		if err := r.port.SetPromiscuous(true); !errors.Is(err, driver.ErrCommandRefused) {
			t.Errorf("SetPromiscuous took the answer of an earlier command: %v", err)
		}
		if r.port.AllMulticast() {
			t.Error("a command that timed out was taken for done")
		}
		r.dev.OnControl(nil)
		if err := r.port.SetPromiscuous(true); err != nil {
			t.Error(err)
		}
	})
}

// TestB16MemoryOfLateCommands lets commands time out until the queue is full,
// looks at what the device can still read, and has it answer in reverse order.
func TestB16MemoryOfLateCommands(t *testing.T) {
	bothRings(t, func(t *testing.T, ring virtio.Features) {
		r := ctrlRig(t, rigConfig{
			dev: fakedev.Config{Offered: ring}, opts: driver.Options{ControlTimeout: 5 * time.Millisecond},
			port: port.Config{RxOffloads: port.RxVLANFilt},
		})
		r.dev.OnControl(func(fakedev.Command) fakedev.Answer { return fakedev.Answer{Never: true} })
		var late []fakedev.Command
		for id := uint16(1); ; id++ {
			if err := r.port.SetVLANFilter(id, true); !errors.Is(err, driver.ErrCommandTimeout) {
				t.Fatalf("VLAN %d: %v", id, err)
			}
			given := r.dev.Commands()
			if len(given) == 0 {
				break // the queue is full
			}
			late = append(late, given...)
		}
		if len(late) < 2 {
			t.Fatalf("%d commands fill the queue", len(late))
		}
		for i, c := range late {
			if got := r.dev.StillReads(c); !bytes.Equal(got, []byte{2, 0, byte(i + 1), 0}) {
				t.Errorf("the device reads % x as command %d", got, i)
			}
		}
		slices.Reverse(late)
		for _, c := range late {
			r.dev.Answer(c, virtio.CtrlOK)
		}
		r.dev.OnControl(nil)
		for id := range uint16(100) {
			if err := r.port.SetVLANFilter(id, true); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestB16ThousandCommandsOnARingOfFour(t *testing.T) {
	bothRings(t, func(t *testing.T, ring virtio.Features) {
		r := ctrlRig(t, rigConfig{dev: fakedev.Config{Offered: ring, ControlSize: 4}})
		for i := range 1000 {
			if err := r.port.SetPromiscuous(i%2 == 0); err != nil {
				t.Fatalf("command %d: %v", i, err)
			}
			if got := r.dev.Commands(); len(got) != 1 || got[0].Data[0] != byte(1-i%2) {
				t.Fatalf("command %d reached the device as %s", i, listCommands(got))
			}
		}
	})
}

func TestB16TwoGoroutinesAtOnce(t *testing.T) {
	bothRings(t, func(t *testing.T, ring virtio.Features) {
		r := ctrlRig(t, rigConfig{dev: fakedev.Config{Offered: ring}})
		var mu sync.Mutex
		inside := 0
		r.dev.OnControl(func(fakedev.Command) fakedev.Answer {
			mu.Lock()
			defer mu.Unlock()
			if inside++; inside > 1 {
				t.Error("two commands are under way")
			}
			inside--
			return fakedev.Answer{After: 50 * time.Microsecond}
		})
		var group sync.WaitGroup
		for _, set := range []func(bool) error{r.port.SetPromiscuous, r.port.SetAllMulticast} {
			group.Go(func() {
				for i := range 100 {
					if err := set(i%2 == 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		if got := r.dev.Commands(); len(got) != 200 {
			t.Errorf("%d commands, want 200", len(got))
		}
	})
}

// TestB16AnnounceAck has the device ask for an announcement: the command that
// answers has no data.
func TestB16AnnounceAck(t *testing.T) {
	defer goleak.VerifyNone(t)
	bothRings(t, func(t *testing.T, ring virtio.Features) {
		r := ctrlRig(t, rigConfig{dev: fakedev.Config{Offered: ring}})
		announced := make(chan struct{}, 10)
		r.port.Notify(func(e port.Event) {
			if e == port.Announce {
				announced <- struct{}{}
			}
		})
		for range 3 {
			r.dev.Announce()
			<-announced
			for r.dev.AnnounceWanted() {
				time.Sleep(time.Millisecond)
			}
			r.wantCommands(told(virtio.CtrlAnnounceAck))
		}
		r.dev.SetLink(false)
		if err := r.port.Close(); err != nil {
			t.Error(err)
		}
		if len(announced) != 0 {
			t.Error("an event without a wish")
		}
	})
}

// TestStopEndsACommand stops and closes the port while a command waits for its
// answer.
func TestStopEndsACommand(t *testing.T) {
	for name, stop := range map[string]func(*driver.Device) error{"stop": (*driver.Device).Stop, "close": (*driver.Device).Close} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			r := ctrlRig(t, rigConfig{opts: driver.Options{ControlTimeout: time.Hour}})
			given := make(chan struct{})
			r.dev.OnControl(func(fakedev.Command) fakedev.Answer {
				close(given)
				return fakedev.Answer{Never: true}
			})
			done := make(chan error)
			go func() { done <- r.port.SetPromiscuous(true) }()
			<-given
			if up := r.port.Link().Up; !up {
				t.Error("the link is down")
			}
			if err := stop(r.port); err != nil {
				t.Error(err)
			}
			if err := <-done; !errors.Is(err, port.ErrState) {
				t.Errorf("SetPromiscuous: %v, want ErrState", err)
			}
			if err := r.port.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStopEndsAStart stops a port whose start waits for an answer.
func TestStopEndsAStart(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Offered: ctrlFeatures}, opts: driver.Options{ControlTimeout: time.Hour}})
	given := make(chan struct{})
	r.dev.OnControl(func(fakedev.Command) fakedev.Answer {
		close(given)
		return fakedev.Answer{Never: true}
	})
	done := make(chan error)
	go func() { done <- r.port.Start() }()
	<-given
	if err := r.port.Stop(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, port.ErrState) {
		t.Errorf("Start: %v, want ErrState", err)
	}
	r.dev.OnControl(nil)
	if err := r.port.Start(); err != nil {
		t.Error(err)
	}
}

// TestBrokenControlQueue has the device give back what it was never given.
func TestBrokenControlQueue(t *testing.T) {
	bothRings(t, func(t *testing.T, ring virtio.Features) {
		r := ctrlRig(t, rigConfig{dev: fakedev.Config{Offered: ring}})
		events := make(chan port.Event, 10)
		r.port.Notify(func(e port.Event) { events <- e })
		r.dev.OnControl(func(fakedev.Command) fakedev.Answer {
			r.dev.ControlQueue().Use(4711, 1)
			return fakedev.Answer{Never: true}
		})
		for range 2 {
			if err := r.port.SetPromiscuous(true); err == nil || errors.Is(err, driver.ErrCommandTimeout) {
				t.Errorf("SetPromiscuous: %v, want the broken rule", err)
			}
		}
		if e := <-events; e != port.NeedsReset {
			t.Errorf("event %v", e)
		}
		r.dev.OnControl(nil)
		if err := errors.Join(r.port.Stop(), r.port.Start(), r.port.SetPromiscuous(true)); err != nil {
			t.Error(err)
		}
	})
}

func TestControlQueueTooSmall(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Offered: ctrlFeatures, ControlSize: 2}})
	if err := r.port.Start(); err == nil {
		t.Error("Start succeeded on a control queue of 2 descriptors")
	}
	if free := r.pool.Free(); free != r.pool.Size() {
		t.Errorf("%d of %d buffers are free", free, r.pool.Size())
	}
}

// TestWithoutControlQueue drives a device that has none.
func TestWithoutControlQueue(t *testing.T) {
	r := startRig(t, rigConfig{})
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	for name, err := range map[string]error{
		"SetPromiscuous":  r.port.SetPromiscuous(true),
		"SetAllMulticast": r.port.SetAllMulticast(true),
		"SetRxMode":       r.port.SetRxMode(port.RxNoBroadcast, true),
		"AddMAC":          r.port.AddMAC(mac),
		"SetMAC":          r.port.SetMAC(mac),
		"SetMulticast":    r.port.SetMulticast(nil),
		"SetVLANFilter":   r.port.SetVLANFilter(1, true),
		"SetRxCoalescing": r.port.SetRxCoalescing(port.Coalescing{}),
	} {
		var fe *driver.FeatureError
		if !errors.Is(err, port.ErrNotSupported) || !errors.As(err, &fe) || !fe.Missing.Has(virtio.NetCtrlVQ) {
			t.Errorf("%s: %v, want ErrNotSupported that names CTRL_VQ", name, err)
		}
	}
}

func TestMissingControlFeaturesAreNamed(t *testing.T) {
	r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | virtio.NetCtrlVQ | virtio.NetCtrlRx}})
	_, rssErr := r.port.RSSLimits()
	for missing, err := range map[virtio.Features]error{
		virtio.NetCtrlRxExtra: r.port.SetRxMode(port.RxAllUnicast, true),
		virtio.NetCtrlVLAN:    r.port.SetVLANFilter(1, true),
		virtio.NetNotfCoal:    r.port.SetTxCoalescing(port.Coalescing{}),
		virtio.NetRSS:         rssErr,
	} {
		var fe *driver.FeatureError
		if !errors.As(err, &fe) || fe.Missing != missing {
			t.Errorf("%v, want one about %v", err, missing)
		}
	}
}

// le16s encodes numbers as the device reads them.
func le16s(values ...uint16) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}
