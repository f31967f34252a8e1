package pcapport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"vionet/mbuf"
	"vionet/port"
	"vionet/scripts/lab"
)

// frames of sizes from the shortest to the longest.
func frames() [][]byte {
	var list [][]byte
	for i, n := range []int{14, 60, 1514, 9000, maxFrame} {
		list = append(list, bytes.Repeat([]byte{byte(i + 1)}, n))
	}
	return list
}

func newPool(t *testing.T, count int) *mbuf.Pool {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(mbuf.DefaultSize) + 4096, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// writePcap makes a pcap or pcapng file in a directory of the test's.
func writePcap(t *testing.T, name string, list [][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put := func(w interface {
		WritePacket(gopacket.CaptureInfo, []byte) error
	}) {
		for i, frame := range list {
			if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(frame), Length: len(frame)}, frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	if strings.HasSuffix(name, "ng") {
		w, err := pcapgo.NewNgWriter(f, layers.LinkTypeEthernet)
		if err != nil {
			t.Fatal(err)
		}
		put(w)
		w.Flush()
		return path
	}
	w := pcapgo.NewWriter(f)
	w.WriteFileHeader(maxFrame, layers.LinkTypeEthernet)
	put(w)
	return path
}

func readPcap(t *testing.T, path string) [][]byte {
	t.Helper()
	c, err := openCapture(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var list [][]byte
	for {
		frame, err := c.next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, bytes.Clone(frame))
	}
}

func started(t *testing.T, pool *mbuf.Pool, cfg Config) port.Port {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if err := p.Configure(port.Config{Pool: pool}); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func content(b *mbuf.Buf) []byte {
	var all []byte
	for seg := b; seg != nil; seg = seg.Next() {
		all = append(all, seg.Bytes()...)
	}
	return all
}

// same compares frames.
func same(t *testing.T, want, got [][]byte) {
	t.Helper()
	if !slices.EqualFunc(want, got, bytes.Equal) {
		t.Errorf("%d frames, want %d like those:\n%.100x\nwant\n%.100x", len(got), len(want), got, want)
	}
}

func TestWhatIsReadIsWritten(t *testing.T) {
	for _, name := range []string{"in.pcap", "in.pcapng"} {
		pool := newPool(t, 256)
		in, out := writePcap(t, name, frames()), filepath.Join(t.TempDir(), "out.pcap")
		p := started(t, pool, Config{RxFiles: []string{in}, TxFiles: []string{out}})
		for round := range 2 {
			if round > 0 {
				// A new start plays the file again.
				if err := p.Start(); err != nil {
					t.Fatal(err)
				}
			}
			var got [][]byte
			bufs := make([]*mbuf.Buf, 3)
			for n := p.RxQueue(0).Burst(bufs); n > 0; n = p.RxQueue(0).Burst(bufs) {
				for _, b := range bufs[:n] {
					got = append(got, content(b))
				}
				if sent := p.TxQueue(0).Burst(bufs[:n]); sent != n {
					t.Fatalf("%d of %d sent", sent, n)
				}
			}
			same(t, frames(), got)
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
			if pool.Free() != pool.Size() {
				t.Errorf("%d of %d buffers are back", pool.Free(), pool.Size())
			}
		}
		same(t, append(frames(), frames()...), readPcap(t, out))
		s := p.Stats()
		want := port.QueueStats{Packets: 10, Bytes: 2 * (14 + 60 + 1514 + 9000 + maxFrame)}
		if s.RxPackets != 10 || s.TxPackets != 10 || s.Rx[0] != want || s.Tx[0] != want {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
}

func TestLoopPlaysForEver(t *testing.T) {
	pool := newPool(t, 64)
	list := [][]byte{{1, 2, 3}, {4, 5}}
	p := started(t, pool, Config{RxFiles: []string{writePcap(t, "in.pcap", list)}, Loop: true})
	bufs := make([]*mbuf.Buf, 5)
	q := p.RxQueue(0)
	turn := 0
	if n := testing.AllocsPerRun(20, func() {
		if n := q.Burst(bufs); n != len(bufs) {
			t.Fatalf("burst of %d", n)
		}
		for _, b := range bufs {
			if !bytes.Equal(b.Bytes(), list[turn%2]) {
				t.Fatalf("frame %d: %x", turn, b.Bytes())
			}
			turn++
		}
		p.TxQueue(0).Burst(bufs)
	}); n != 0 {
		t.Errorf("%v allocations a burst", n)
	}
	p.Stop()
	if pool.Free() != pool.Size() {
		t.Errorf("%d of %d buffers are back", pool.Free(), pool.Size())
	}
}

func TestShortOfBuffersLosesNothing(t *testing.T) {
	pool := newPool(t, 38) // the longest frame takes 32
	p := started(t, pool, Config{RxFiles: []string{writePcap(t, "in.pcap", frames())}})
	var got [][]byte
	var held []*mbuf.Buf
	bufs := make([]*mbuf.Buf, 32)
	for range 100 {
		n := p.RxQueue(0).Burst(bufs)
		for _, b := range bufs[:n] {
			got = append(got, content(b))
			held = append(held, b)
		}
		if n == 0 && len(held) > 0 {
			held[0].Free()
			held = held[1:]
		}
	}
	same(t, frames(), got)
	if p.Stats().RxNoBuf == 0 {
		t.Error("the shortage was not counted")
	}
	for _, b := range held {
		b.Free()
	}
	p.Stop()
	if pool.Free() != pool.Size() {
		t.Errorf("%d of %d buffers are back", pool.Free(), pool.Size())
	}
}

func TestBrokenFiles(t *testing.T) {
	good := writePcap(t, "in.pcap", frames())
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	raw := bytes.Clone(whole)
	raw[20] = 101 // LINKTYPE_RAW
	for name, text := range map[string][]byte{"empty": nil, "text": []byte("not a capture file at all, that much is sure"), "short header": whole[:20], "raw IP": raw} {
		path := filepath.Join(t.TempDir(), "in.pcap")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{RxFiles: []string{path}}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none", "in.pcap"), "/dev/null"} {
		if _, err := New(Config{RxFiles: []string{path}}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}

	path := filepath.Join(t.TempDir(), "cut.pcap")
	if err := os.WriteFile(path, whole[:24+16+14+16+30], 0o600); err != nil {
		t.Fatal(err)
	}
	p := started(t, newPool(t, 64), Config{RxFiles: []string{path}})
	bufs := make([]*mbuf.Buf, 8)
	if n := p.RxQueue(0).Burst(bufs); n != 1 || p.RxQueue(0).Err() == nil || p.RxQueue(0).Burst(bufs) != 0 {
		t.Errorf("cut in frame 2: burst of %d, error %v", n, p.RxQueue(0).Err())
	} else {
		bufs[0].Free()
	}
	empty := writePcap(t, "none.pcap", nil)
	p2, err := New(Config{RxFiles: []string{empty}, Loop: true})
	if err != nil {
		t.Fatal(err)
	}
	p2.Configure(port.Config{Pool: newPool(t, 64)})
	if err := p2.Start(); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("loop without frames: %v", err)
	}
}

func TestStates(t *testing.T) {
	pool := newPool(t, 64)
	p, err := New(Config{Name: "net_pcap7", TxFiles: []string{filepath.Join(t.TempDir(), "none", "out.pcap")}})
	if err != nil {
		t.Fatal(err)
	}
	if mac := p.Info().MAC.String(); mac != "02:70:63:61:70:07" {
		t.Errorf("MAC %s", mac)
	}
	if err := p.Start(); !errors.Is(err, port.ErrState) {
		t.Errorf("Start before Configure: %v", err)
	}
	for what, cfg := range map[string]port.Config{
		"two queues": {Pool: pool, RxQueues: 2}, "no pool": {}, "MTU": {Pool: pool, MTU: 10},
		"offload": {Pool: pool, TxOffloads: port.TxTCPCksum},
	} {
		if err := p.Configure(cfg); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if err := p.Configure(port.Config{Pool: pool}); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start without a place for the file: %v", err)
	}
	if p.Link().Up {
		t.Error("link is up after a failed start")
	}
	if err := errors.Join(p.Stop(), p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if err := p.Start(); !errors.Is(err, port.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}

func TestFullDiskIsAnError(t *testing.T) {
	p, err := New(Config{TxFiles: []string{"/dev/full"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Configure(port.Config{Pool: newPool(t, 64)})
	if err := p.Start(); err == nil || !strings.Contains(err.Error(), "/dev/full") {
		t.Errorf("Start: %v", err)
	}
}

// tshark reads what the port writes, and has nothing to say against it.
func TestTsharkReadsWhatIsWritten(t *testing.T) {
	lab.Need(t, "tshark")
	out := filepath.Join(t.TempDir(), "out.pcap")
	p := started(t, newPool(t, 256), Config{RxFiles: []string{writePcap(t, "in.pcapng", frames())}, TxFiles: []string{out}})
	begin := time.Now()
	bufs := make([]*mbuf.Buf, 8)
	for n := p.RxQueue(0).Burst(bufs); n > 0; n = p.RxQueue(0).Burst(bufs) {
		p.TxQueue(0).Burst(bufs[:n])
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	rows := lab.Tshark(t, out, "frame.len", "frame.cap_len", "frame.time_epoch")
	for i, frame := range frames() {
		size := strconv.Itoa(len(frame))
		if i >= len(rows) || rows[i][0] != size || rows[i][1] != size || rows[i][2] < fmt.Sprintf("%d.%09d", begin.Unix(), begin.Nanosecond()) {
			t.Fatalf("frame %d of %s bytes: %v", i, size, rows)
		}
	}
}
