package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/pcapgo"
	"go.uber.org/goleak"

	"vionet/mbuf"
	"vionet/port"
	"vionet/port/ringport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cable is two ports that are tied together, the near one behind a tap.
type cable struct {
	pool      *mbuf.Pool
	near, far port.Port
	tap       Tap
}

// plug ties two started ports of two queues together, whose rings hold 64 packets.
func plug(t *testing.T) *cable {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{}
	if c.pool, err = mbuf.NewPool(mem, mbuf.PoolConfig{Count: 512}); err != nil {
		t.Fatal(err)
	}
	if c.near, c.far, err = ringport.NewPair("near", "far", 64); err != nil {
		t.Fatal(err)
	}
	for _, p := range []port.Port{c.near, c.far} {
		if err := errors.Join(p.Configure(port.Config{Pool: c.pool, RxQueues: 2, TxQueues: 2, RxInterrupts: true}), p.Start()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(c.near.Close(), c.far.Close(), c.pool.Close(), mem.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *cable) rx(q int) port.RxQueue {
	return c.tap.RxQueue(c.near.RxQueue(q), Source{Port: 3, Queue: q})
}
func (c *cable) tx(q int) port.TxQueue {
	return c.tap.TxQueue(c.near.TxQueue(q), Source{Port: 3, Queue: q})
}

// packets makes packets in two segments, each with its text behind an Ethernet header.
func (c *cable) packets(t *testing.T, texts ...string) (pkts []*mbuf.Buf) {
	t.Helper()
	for _, text := range texts {
		head, tail := c.pool.Get(), c.pool.Get()
		copy(head.Append(14), frame(""))
		copy(tail.Append(len(text)), text)
		head.Chain(tail)
		pkts = append(pkts, head)
	}
	return pkts
}

// frame is a frame with an EtherType for experiments.
func frame(text string) string {
	return "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5" + text
}

// receive takes what is there, and frees it.
func receive(q port.RxQueue) int {
	bufs := make([]*mbuf.Buf, 128)
	n := q.Burst(bufs)
	for _, b := range bufs[:n] {
		b.Free()
	}
	return n
}

// record starts a recorder on the cable's tap.
func (c *cable) record(t *testing.T, cfg Config) *Recorder {
	t.Helper()
	if cfg.Sources == nil {
		cfg.Sources = []Source{{Rx, 3, 0}, {Tx, 3, 0}}
	}
	r, err := Record(filepath.Join(t.TempDir(), "x.pcapng"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.tap.Set(r)
	return r
}

// stop ends it.
func (c *cable) stop(t *testing.T, r *Recorder) {
	t.Helper()
	c.tap.Set(nil)
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}

// packet is one of a file.
type packet struct {
	Name      string // of the interface
	Direction pcapgo.NgEpbFlag
	Queue     uint32
	Data      string
	Length    int
}

// read reads a file, with the statistics of its interfaces by name: packets, and
// those that were left out.
func read(t *testing.T, name string) (packets []packet, times []time.Time, stats map[string][2]uint64) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, info, opts, err := r.ReadPacketDataWithOptions()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		i, err := r.Interface(info.InterfaceIndex)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, packet{i.Name, opts.Flags.Direction, *opts.Queue, string(data), info.Length})
		times = append(times, info.Timestamp)
	}
	stats = map[string][2]uint64{}
	for n := range r.NInterfaces() {
		i, err := r.Interface(n)
		if err != nil {
			t.Fatal(err)
		}
		stats[i.Name] = [2]uint64{i.Statistics.PacketsReceived, i.Statistics.PacketsDropped}
	}
	return packets, times, stats
}

const (
	in  = pcapgo.NgEpbFlagDirectionInbound
	out = pcapgo.NgEpbFlagDirectionOutbound
)

func TestBothDirectionsOfEveryQueue(t *testing.T) {
	c := plug(t)
	if n := c.tx(0).Burst(c.packets(t, "before")); n != 1 {
		t.Fatal("nothing was sent")
	}
	receive(c.far.RxQueue(0))
	r := c.record(t, Config{})
	begin := time.Now()
	c.tx(1).Burst(c.packets(t, "one", "two"))
	c.far.TxQueue(0).Burst(c.packets(t, "three"))
	if receive(c.far.RxQueue(1)) != 2 || receive(c.rx(0)) != 1 {
		t.Error("packets went astray")
	}
	c.stop(t, r)
	end := time.Now()
	c.tx(1).Burst(c.packets(t, "behind"))

	packets, times, stats := read(t, r.Name())
	want := []packet{
		{"port3-tx-q1", out, 1, frame("one"), 17},
		{"port3-tx-q1", out, 1, frame("two"), 17},
		{"port3-rx-q0", in, 0, frame("three"), 19},
	}
	if diff := cmp.Diff(want, packets); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, at := range times {
		if at.Before(begin) || at.After(end) {
			t.Errorf("packet at %v, not from %v to %v", at, begin, end)
		}
	}
	if diff := cmp.Diff(map[string][2]uint64{"port3-rx-q0": {1, 0}, "port3-tx-q0": {0, 0}, "port3-tx-q1": {2, 0}}, stats); diff != "" {
		t.Errorf("statistics (-want +got)\n%s", diff)
	}
	if written, dropped := r.Counts(); written != 3 || dropped != 0 {
		t.Errorf("%d written, %d dropped", written, dropped)
	}
}

// What the queue does not take was not sent, and is offered again.
func TestOnlyWhatIsSent(t *testing.T) {
	c := plug(t)
	r := c.record(t, Config{})
	var texts []string
	for i := range 100 {
		texts = append(texts, fmt.Sprint(i))
	}
	pkts, tx := c.packets(t, texts...), c.tx(0)
	took := tx.Burst(pkts)
	if took == 0 || took == len(pkts) {
		t.Fatalf("%d of %d sent", took, len(pkts))
	}
	if n := tx.Burst(pkts[took:]); n != 0 {
		t.Fatalf("%d more", n)
	}
	receive(c.far.RxQueue(0))
	if n := took + tx.Burst(pkts[took:]); n != len(pkts) {
		t.Fatalf("%d of %d sent", n, len(pkts))
	}
	c.stop(t, r)
	packets, _, _ := read(t, r.Name())
	for i, p := range packets {
		if p.Data != frame(texts[i]) {
			t.Fatalf("packet %d is %q", i, p.Data)
		}
	}
	if len(packets) != len(texts) {
		t.Errorf("%d packets in the file, %d were sent", len(packets), len(texts))
	}
}

func TestChoice(t *testing.T) {
	c := plug(t)
	r := c.record(t, Config{
		WriterConfig: WriterConfig{SnapLen: 16},
		Take:         func(s Source) bool { return s.Queue == 1 },
		Match:        func(head []byte, size int) bool { return len(head) == 14 && size > 17 },
	})
	for q := range 2 {
		c.tx(q).Burst(c.packets(t, "small", "no", "large one"))
		receive(c.far.RxQueue(q))
	}
	c.stop(t, r)
	packets, _, _ := read(t, r.Name())
	want := []packet{
		{"port3-tx-q1", out, 1, frame("sm"), 19},
		{"port3-tx-q1", out, 1, frame("la"), 23},
	}
	if diff := cmp.Diff(want, packets); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNobodyWaitsForTheDisk(t *testing.T) {
	c := plug(t)
	r, err := newRecorder(filepath.Join(t.TempDir(), "x.pcapng"), Config{Sources: []Source{{Tx, 3, 0}}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	c.tap.Set(r) // nobody writes: two blocks are all there is
	tx, rx := c.tx(0), c.far.RxQueue(0)
	pkts, got := c.packets(t, "one", "two"), make([]*mbuf.Buf, 2)
	if n := testing.AllocsPerRun(4, func() {
		tx.Burst(pkts)
		rx.Burst(got)
		copy(pkts, got)
	}); n != 0 {
		t.Errorf("%v allocations a burst", n)
	}
	if _, dropped := r.Counts(); dropped != 6 {
		t.Errorf("%d dropped, want 6 of 10", dropped)
	}
	go func() { r.done <- r.write() }()
	if err := errors.Join(r.Stop(), r.Stop()); err != nil {
		t.Error(err)
	}
	tx.Burst(pkts) // too late, also where the tap still has it
	receive(rx)
	packets, _, stats := read(t, r.Name())
	if len(packets) != 4 || stats["port3-tx-q0"] != [2]uint64{10, 6} {
		t.Errorf("%d packets, statistics %v", len(packets), stats)
	}
}

// bursting is a queue that panics.
type bursting struct{ port.TxQueue }

func (bursting) Burst([]*mbuf.Buf) int { panic("burst") }

// Whatever happens in a burst, the file can be ended.
func TestStopAfterPanic(t *testing.T) {
	c := plug(t)
	r := c.record(t, Config{Match: func(frame []byte, _ int) bool {
		if len(frame) < 14 {
			panic("match")
		}
		return true
	}})
	short := []*mbuf.Buf{c.pool.Get()}
	if c.far.TxQueue(0).Burst(short) != 1 {
		t.Fatal("nothing was sent")
	}
	pkts, rx := c.packets(t, "one"), c.rx(0)
	for _, burst := range []func(){
		func() { c.tap.TxQueue(bursting{}, Source{}).Burst(pkts) },
		func() { rx.Burst(short) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			burst()
		}()
		if !r.mu.TryLock() {
			t.Fatal("the recorder waits for a burst that has ended")
		}
		r.mu.Unlock()
	}
	c.stop(t, r)
	pkts[0].Free()
	short[0].Free()
}

func TestTapCostsNoAllocation(t *testing.T) {
	c := plug(t)
	tx, rx := c.tx(0), c.tap.RxQueue(c.far.RxQueue(0), Source{Port: 4})
	pkts := c.packets(t, "one")
	if n := testing.AllocsPerRun(10, func() { tx.Burst(pkts); rx.Burst(pkts) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	pkts[0].Free()
}

// The tap hides nothing of the queues that loops sleep on.
func TestTapLetsSleep(t *testing.T) {
	c := plug(t)
	if _, err := port.AlarmOf(c.rx(0)); err != nil {
		t.Error(err)
	}
	if _, err := port.AlarmOf(c.tx(0)); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("alarm of a queue that has none: %v", err)
	}
	if err := c.tx(0).(port.TxWaiter).Wait(t.Context(), 1); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("wait on a queue that has no wait: %v", err)
	}
}

// Recorders come and go while packets move.
func TestRecordersInTraffic(t *testing.T) {
	c := plug(t)
	stop := make(chan struct{})
	var traffic sync.WaitGroup
	for q := range 2 {
		tx, rx := c.tx(q), c.far.RxQueue(q)
		pkts := c.packets(t, "to", "and", "fro")
		traffic.Go(func() {
			defer func() {
				for _, b := range pkts {
					b.Free()
				}
			}()
			for {
				select {
				case <-stop:
					return
				default:
					tx.Burst(pkts)
					rx.Burst(pkts)
				}
			}
		})
	}
	for range 5 {
		r := c.record(t, Config{})
		for written, _ := r.Counts(); written == 0; written, _ = r.Counts() {
			time.Sleep(time.Millisecond)
		}
		c.stop(t, r)
		packets, times, _ := read(t, r.Name())
		written, _ := r.Counts()
		if uint64(len(packets)) != written {
			t.Fatalf("%d packets in the file, %d were written", len(packets), written)
		}
		last := map[string]time.Time{}
		for i, p := range packets {
			if times[i].Before(last[p.Name]) {
				t.Fatalf("%s: %v after %v", p.Name, times[i], last[p.Name])
			}
			last[p.Name] = times[i]
		}
	}
	close(stop)
	traffic.Wait()
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	older := filepath.Join(dir, "x")
	if err := os.WriteFile(older, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := []Source{{Rx, 0, 0}}
	for what, c := range map[string]struct {
		name string
		cfg  Config
		want error
	}{
		"no queue":         {older, Config{}, port.ErrInvalid},
		"negative length":  {older, Config{Sources: source, WriterConfig: WriterConfig{SnapLen: -1}}, port.ErrInvalid},
		"length too large": {older, Config{Sources: source, WriterConfig: WriterConfig{SnapLen: MaxSnapLen + 1}}, port.ErrInvalid},
		"device":           {os.DevNull, Config{Sources: source}, port.ErrInvalid},
		"no directory":     {filepath.Join(dir, "none", "x"), Config{Sources: source}, os.ErrNotExist},
	} {
		if r, err := Record(c.name, c.cfg); !errors.Is(err, c.want) || r != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if text, err := os.ReadFile(older); err != nil || string(text) != "older" {
		t.Errorf("what was refused left %q (%v) of an older file", text, err)
	}
}

// failing is a writer that takes so many bytes.
type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestWriterTellsOfErrors(t *testing.T) {
	if _, err := NewWriter(&failing{10}, WriterConfig{}, Source{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("no room for the header: %v", err)
	}
	w, err := NewWriter(&failing{1000}, WriterConfig{}, Source{})
	if err != nil {
		t.Fatal(err)
	}
	big := []byte(strings.Repeat("x", 60_000))
	for range 10 {
		err = w.Write(Source{}, time.Now(), big, len(big))
	}
	if !errors.Is(err, io.ErrShortWrite) || !errors.Is(w.Close(), io.ErrShortWrite) {
		t.Errorf("no room for packets: %v", err)
	}
	if err := w.Write(Source{}, time.Now(), big, 10); err == nil {
		t.Error("a packet was longer than it was")
	}
}

func TestWriterSaysWhatTheFileIs(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, WriterConfig{Comment: "from the east", Filter: "udp"}, Source{Rx, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	section, i := r.SectionInfo(), must(r.Interface(0))
	if section.Application != "vionet" || section.Comment != "from the east" || i.Name != "port1-rx-q2" || i.Filter != "udp" || i.SnapLength != MaxSnapLen {
		t.Errorf("%+v, %+v", section, i)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
