package driver_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// usualKey is the key that the Toeplitz hash is published with.
func usualKey(t *testing.T) []byte {
	key, err := hex.DecodeString("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestB17ExactlyTheQueuePairsInUse(t *testing.T) {
	steps := []struct{ rx, tx int }{{4, 4}, {1, 1}, {1, 2}, {2, 1}, {128, 128}, {1, 1}}
	for name, rss := range map[string]*port.RSS{"automatic steering": nil, "rss": {}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigConfig{dev: fakedev.Config{Offered: ctrlFeatures, Pairs: 128, QueueSize: 32}, buffers: 128*32 + 1024})
			for _, s := range steps {
				if err := r.port.Configure(port.Config{RxQueues: s.rx, TxQueues: s.tx, RSS: rss, Pool: r.pool}); err != nil {
					t.Fatal(err)
				}
				if err := r.port.Start(); err != nil {
					t.Fatal(err)
				}
				pairs := max(s.rx, s.tx)
				if got := r.dev.Pairs(); got != pairs {
					t.Errorf("%d Rx and %d Tx queues: the device uses %d pairs, want %d", s.rx, s.tx, got, pairs)
				}
				checkPairsApart(t, r, pairs)
				if err := r.port.Stop(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// checkPairsApart sends and delivers a frame of its own on every pair.
func checkPairsApart(t *testing.T, r *rig, pairs int) {
	t.Helper()
	// One goroutine drives all queues: one cache, so that none hoards buffers.
	cache := r.pool.NewCache(64)
	defer cache.Flush()
	for i := range pairs {
		r.port.RxQueue(i).UseCache(cache)
		r.port.TxQueue(i).UseCache(cache)
	}
	for i := range pairs {
		r.port.RxQueue(i).Burst(nil) // fills the ring
		out, in := frame(64, byte(i)), frame(64, byte(i)^0x80)
		if n := r.port.TxQueue(i).Burst([]*mbuf.Buf{r.packet(out)}); n != 1 {
			t.Fatalf("queue %d took %d packets", i, n)
		}
		if err := r.dev.Deliver(i, virtio.NetHeader{}, in); err != nil {
			t.Fatal(err)
		}
		bufs := make([]*mbuf.Buf, 4)
		if n := r.port.RxQueue(i).Burst(bufs); n != 1 || !bytes.Equal(bufs[0].Bytes(), in) {
			t.Fatalf("queue %d received %d packets", i, n)
		}
		bufs[0].Free()
	}
	for i := range pairs {
		if sent, err := r.dev.Sent(i); err != nil || len(sent) != 1 || !bytes.Equal(sent[0].Data, frame(64, byte(i))) {
			t.Fatalf("pair %d: %d frames, %v", i, len(sent), err)
		}
	}
	if r.dev.Queue(virtio.TxQueue(pairs)) != nil {
		t.Errorf("pair %d is set up", pairs)
	}
}

func TestB17PairsCommand(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | virtio.NetCtrlVQ | virtio.NetMQ, Pairs: 300}, buffers: 4096})
	if got := r.port.Info().MaxRxQueues; got != 128 {
		t.Errorf("%d queues at most, want 128", got)
	}
	for _, s := range []struct{ rx, tx int }{{3, 2}, {1, 4}, {1, 1}} {
		if err := r.port.Configure(port.Config{RxQueues: s.rx, TxQueues: s.tx, Pool: r.pool}); err != nil {
			t.Fatal(err)
		}
		if err := r.port.Start(); err != nil {
			t.Fatal(err)
		}
		if pairs := max(s.rx, s.tx); pairs > 1 {
			if r.dev.Queue(600) == nil {
				t.Error("the control queue is not behind the 300 pairs")
			}
			r.wantCommands(told(virtio.CtrlMQPairsSet, byte(pairs), 0))
		} else {
			// Without MQ the device uses one pair; there is nothing to say.
			r.wantCommands()
		}
		r.port.Stop()
	}
}

// TestB23LiesAboutQueuePairs has the device claim numbers of pairs that cannot
// be: it is driven with one.
func TestB23LiesAboutQueuePairs(t *testing.T) {
	for _, claim := range []uint16{0, 40000, 65535} {
		t.Run(fmt.Sprint(claim), func(t *testing.T) {
			dev := fakedev.New(fakedev.Config{Offered: ctrlFeatures})
			dev.WriteConfig(virtio.ConfigMaxPairs, le16s(claim))
			d, err := driver.Open(dev, driver.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if got := d.Info().MaxTxQueues; got != 1 {
				t.Errorf("%d queues, want 1", got)
			}
			if got := d.Offered() & (virtio.NetMQ | virtio.NetRSS); got != 0 {
				t.Errorf("%v is believed", got)
			}
		})
	}
}

func TestB23LiesAboutRSS(t *testing.T) {
	for name, lie := range map[string]func(d *fakedev.Device){
		"no key":   func(d *fakedev.Device) { d.WriteConfig(virtio.ConfigRSSKeyMax, []byte{0}) },
		"no table": func(d *fakedev.Device) { d.WriteConfig(virtio.ConfigRSSTableMax, []byte{0, 0}) },
		"no types": func(d *fakedev.Device) { d.WriteConfig(virtio.ConfigHashTypes, make([]byte, 4)) },
	} {
		t.Run(name, func(t *testing.T) {
			dev := fakedev.New(fakedev.Config{Offered: ctrlFeatures})
			lie(dev)
			d, err := driver.Open(dev, driver.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if _, err := d.RSSLimits(); !errors.Is(err, port.ErrNotSupported) {
				t.Errorf("RSSLimits: %v", err)
			}
			if d.Info().RxCapa&port.RxRSSHash != 0 {
				t.Error("the hash is on offer")
			}
		})
	}
}

// rssData is the data of an RSS_CONFIG, put together from its fields.
func rssData(types byte, table []uint16, pairs byte, key []byte) []byte {
	b := []byte{types, 1, 0, 0}
	b = append(b, le16s(uint16(len(table)-1), 0)...)
	b = append(b, le16s(table...)...)
	return append(append(b, pairs, 0, byte(len(key))), key...)
}

func ramp(n int, queues uint16) []uint16 {
	table := make([]uint16, n)
	for i := range table {
		table[i] = uint16(i) % queues
	}
	return table
}

func TestB17RSSDefaults(t *testing.T) {
	key := usualKey(t)
	tests := []struct {
		name          string
		keyMax, table int
		wantKey       []byte
		wantTable     []uint16
	}{
		{"the usual device", 0, 0, key, ramp(128, 3)},
		{"a longer key and table", 52, 1024, key, ramp(128, 3)},
		{"a short key and table", 16, 8, key[:16], ramp(8, 3)},
		{"a table that is no power of two", 40, 100, key, ramp(64, 3)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigConfig{
				dev:     fakedev.Config{Offered: fakedev.DefaultFeatures | virtio.NetCtrlVQ | virtio.NetRSS, Pairs: 4, RSSKeyMax: tt.keyMax, RSSTableMax: tt.table},
				port:    port.Config{RxQueues: 3, TxQueues: 4, RSS: &port.RSS{}},
				buffers: 2048,
			})
			if err := r.port.Start(); err != nil {
				t.Fatal(err)
			}
			r.wantCommands(told(virtio.CtrlMQRSSConfig, rssData(0xff, tt.wantTable, 4, tt.wantKey)...))
			got, err := r.port.RSS()
			want := port.RSS{Key: tt.wantKey, Table: tt.wantTable, Types: 0x1ff}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("RSS: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestB17RSSChanges(t *testing.T) {
	r := newRig(t, rigConfig{
		dev:     fakedev.Config{Offered: fakedev.DefaultFeatures | virtio.NetCtrlVQ | virtio.NetRSS, Pairs: 4},
		port:    port.Config{RxQueues: 2, RSS: &port.RSS{}},
		buffers: 2048,
	})
	if err := r.port.Start(); err != nil {
		t.Fatal(err)
	}
	r.dev.Commands()
	key := frame(40, 3)
	table := ramp(128, 2)
	table[5], table[6] = 1, 1

	check := func(name string, err error, want port.RSS) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r.wantCommands(told(virtio.CtrlMQRSSConfig, rssTypes(want)...))
		got, err := r.port.RSS()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: read back %v (-want +got):\n%s", name, err, diff)
		}
	}
	now, err := r.port.RSS()
	if err != nil {
		t.Fatal(err)
	}
	now.Key = key
	check("key of 40", r.port.SetRSSKey(key), now)
	now.Types = virtio.HashIPv4 | virtio.HashTCPv4
	check("types alone", r.port.SetRSSTypes(now.Types|1<<20), now)
	now.Table = table
	check("table", r.port.SetRSSTable(table), now)
	now.Key = key[:39]
	check("key of 39", r.port.SetRSSKey(key[:39]), now)
	now.Table = []uint16{1}
	check("table of one", r.port.SetRSSTable([]uint16{1}), now)
	now.Types = 0
	check("no types", r.port.SetRSSTypes(0), now)

	for name, err := range map[string]error{
		"key of 41":                 r.port.SetRSSKey(make([]byte, 41)),
		"no key":                    r.port.SetRSSKey(nil),
		"table of 0":                r.port.SetRSSTable(nil),
		"table of 127":              r.port.SetRSSTable(make([]uint16, 127)),
		"table of 256":              r.port.SetRSSTable(make([]uint16, 256)),
		"a queue that is off":       r.port.SetRSSTable(append(make([]uint16, 127), 2)),
		"a type that nobody has":    r.port.SetRSSTypes(1 << 20),
		"a table with a huge queue": r.port.SetRSSTable([]uint16{65535}),
	} {
		if !errors.Is(err, port.ErrInvalid) && !errors.Is(err, port.ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.dev.OnControl(func(fakedev.Command) fakedev.Answer { return fakedev.Answer{Status: virtio.CtrlErr} })
	if err := r.port.SetRSSTypes(virtio.HashIPv6); !errors.Is(err, driver.ErrCommandRefused) {
		t.Errorf("refused: %v", err)
	}
	r.dev.OnControl(nil)
	r.dev.Commands()
	if got, err := r.port.RSS(); err != nil || !cmp.Equal(got, now) {
		t.Errorf("after what was refused: %+v, %v, want %+v", got, err, now)
	}

	// A start restores all of it; another number of queues makes a new table.
	r.port.Stop()
	check("restart", r.port.Start(), now)
	r.port.Stop()
	if err := r.port.Configure(port.Config{RxQueues: 4, RSS: &port.RSS{}, Pool: r.pool}); err != nil {
		t.Fatal(err)
	}
	now.Table = ramp(128, 4)
	if err := r.port.Start(); err != nil {
		t.Fatal(err)
	}
	r.wantCommands(told(virtio.CtrlMQRSSConfig, rssPairs(now, 4)...))
}

// rssPairs is the command data for any settings; rssTypes for two pairs.
func rssPairs(r port.RSS, pairs byte) []byte {
	b := rssData(byte(r.Types), r.Table, pairs, r.Key)
	b[1] = byte(r.Types >> 8)
	return b
}

func rssTypes(r port.RSS) []byte { return rssPairs(r, 2) }

func TestRSSOfAConfiguration(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Offered: ctrlFeatures, Pairs: 4}, buffers: 2048})
	for name, bad := range map[string]port.RSS{
		"key":   {Key: make([]byte, 41)},
		"table": {Table: []uint16{2}},
		"types": {Types: 1 << 30},
	} {
		err := r.port.Configure(port.Config{RxQueues: 2, RSS: &bad, Pool: r.pool})
		if !errors.Is(err, port.ErrInvalid) && !errors.Is(err, port.ErrNotSupported) {
			t.Errorf("bad %s: %v", name, err)
		}
	}
	if err := r.port.SetRSSTypes(1); !errors.Is(err, port.ErrState) {
		t.Errorf("types without RSS: %v", err)
	}
	asked := port.RSS{Key: []byte{1, 2, 3}, Table: []uint16{1, 0}, Types: virtio.HashUDPv4}
	if err := r.port.Configure(port.Config{RxQueues: 2, RSS: &asked, Pool: r.pool}); err != nil {
		t.Fatal(err)
	}
	want := port.RSS{Key: slices.Clone(asked.Key), Table: slices.Clone(asked.Table), Types: asked.Types}
	asked.Key[0], asked.Table[0] = 99, 99 // the caller's own again
	if got, err := r.port.RSS(); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestRSSNeedsTheDevice(t *testing.T) {
	r := newRig(t, rigConfig{})
	err := r.port.Configure(port.Config{RSS: &port.RSS{}, Pool: r.pool})
	var fe *driver.FeatureError
	if !errors.As(err, &fe) || fe.Missing != virtio.NetRSS|virtio.NetCtrlVQ {
		t.Errorf("Configure: %v", err)
	}
}

// TestReportedHash receives frames with and without a hash, on one queue and
// without RSS.
func TestReportedHash(t *testing.T) {
	bothRings(t, func(t *testing.T, ring virtio.Features) {
		for _, mergeable := range []bool{true, false} {
			r := newRig(t, rigConfig{
				dev:  fakedev.Config{Offered: ctrlFeatures | ring},
				opts: driver.Options{NoMergeable: !mergeable},
				port: port.Config{RxOffloads: port.RxRSSHash},
			})
			if err := r.port.Start(); err != nil {
				t.Fatal(err)
			}
			config := append([]byte{0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40}, usualKey(t)...)
			if got := r.dev.Commands(); got[0].Code != virtio.CtrlMQHashConfig || !bytes.Equal(got[0].Data, config) {
				t.Errorf("the device was told %s", listCommands(got[:1]))
			}
			for i, report := range []uint16{0, 2 /* TCPv4 */} {
				in := frame(100, byte(i))
				if err := r.dev.DeliverHash(0, 0xdecade, report, in); err != nil {
					t.Fatal(err)
				}
				bufs := make([]*mbuf.Buf, 4)
				if n := r.rx().Burst(bufs); n != 1 || !bytes.Equal(bufs[0].Bytes(), in) {
					t.Fatalf("%d packets", n)
				}
				b := bufs[0]
				if has := b.Flags&mbuf.RxHash != 0; has != (report != 0) || has && b.Hash != 0xdecade {
					t.Errorf("report %d: flags %#x, hash %#x", report, b.Flags, b.Hash)
				}
				b.Free()
			}
			// The longer header goes in front of what is sent, too.
			out := frame(100, 9)
			if f := r.send(r.packet(out)); !bytes.Equal(f.Data, out) {
				t.Errorf("the device got % x", f.Data)
			}
		}
	})
}
