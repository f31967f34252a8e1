package testpmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"vionet/mbuf"
	"vionet/port"
)

// fakePort is a port with the offloads of a virtio device. What is sent on a
// queue comes back on it. It logs the paths that a virtio port would choose.
type fakePort struct {
	id  int
	log io.Writer
	mac net.HardwareAddr

	mu       sync.Mutex
	info     port.Info
	conf     port.Config
	queues   []*fakeQueue
	started  bool
	calls    []string
	notify   func(port.Event)
	startErr error
	promErr  error
	missed   uint64
	explode  bool // bursts panic
	hold     chan struct{}
}

const virtioRxCapa = port.RxVLANStrip | port.RxUDPCksum | port.RxTCPCksum | port.RxTCPLRO | port.RxScatter
const virtioTxCapa = port.TxVLANInsert | port.TxUDPCksum | port.TxTCPCksum | port.TxTCPTSO | port.TxMultiSegs

func newFakePort(id int, log io.Writer) *fakePort {
	return &fakePort{id: id, log: log, mac: net.HardwareAddr{0x52, 0x54, 0, 0x58, 0xd7, byte(id + 1)}, info: port.Info{
		Name: fmt.Sprintf("net_virtio_user%d", id), Driver: "net_virtio_user", Devargs: "path=/tmp/x.sock",
		MTU: 1500, MinMTU: 68, MaxMTU: 9698, RxQueues: 1, TxQueues: 1, MaxRxQueues: 2, MaxTxQueues: 2,
		MinDesc: 32, MaxDesc: 32768, MinRxBufSize: 64, MaxRxPktLen: 9728, MaxMACs: 64,
		RxCapa: virtioRxCapa, TxCapa: virtioTxCapa,
	}}
}

func (p *fakePort) Name() string { return p.info.Name }

func (p *fakePort) called(what string) { p.calls = append(p.calls, what) }

func (p *fakePort) Info() port.Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := p.info
	info.MAC = p.mac
	return info
}

func (p *fakePort) Configure(c port.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called("configure")
	p.conf = c
	if c.MTU != 0 {
		p.info.MTU = c.MTU
	}
	return nil
}

func (p *fakePort) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called("start")
	if p.startErr != nil {
		return p.startErr
	}
	path := "simple"
	if p.conf.TxOffloads != 0 {
		path = "standard"
	}
	fmt.Fprintf(p.log, "virtio: using mergeable buffer Rx path on port %d\nvirtio: using %s Tx path on port %d\n", p.id, path, p.id)
	p.queues = nil
	for range max(p.conf.RxQueues, p.conf.TxQueues) {
		p.queues = append(p.queues, &fakeQueue{port: p})
	}
	p.info.RxQueues, p.info.TxQueues = p.conf.RxQueues, p.conf.TxQueues
	p.started = true
	return nil
}

func (p *fakePort) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called("stop")
	for _, q := range p.queues {
		for _, b := range q.inside {
			b.Free()
		}
		q.inside = nil
	}
	p.started = false
	return nil
}

func (p *fakePort) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called("close")
	return nil
}

func (p *fakePort) RxQueue(i int) port.RxQueue { return (*fakeRx)(p.queues[i]) }
func (p *fakePort) TxQueue(i int) port.TxQueue { return (*fakeTx)(p.queues[i]) }

func (p *fakePort) Stats() port.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := port.Stats{RxMissed: p.missed}
	for _, q := range p.queues {
		q.mu.Lock()
		s.RxPackets += q.rx
		s.TxPackets += q.tx
		q.mu.Unlock()
	}
	return s
}

func (p *fakePort) ResetStats() {}

func (p *fakePort) Link() port.Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return port.Link{FullDuplex: true}
	}
	return port.Link{Up: true, Speed: port.SpeedUnknown, FullDuplex: true}
}

func (p *fakePort) Paths() port.Paths {
	return port.Paths{
		Rx: port.Path{Name: "mergeable", Reason: "the device offers mergeable buffers", Unlock: "mrg_rxbuf=0"},
		Tx: port.Path{Name: "simple", Reason: "no transmit offload is on"},
	}
}

func (p *fakePort) SetPromiscuous(on bool) error {
	if p.promErr == nil {
		p.info.Promiscuous = on
	}
	return p.promErr
}

func (p *fakePort) Notify(f func(port.Event)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify = f
}

const fakeRing = 256

// fakeQueue is both ends of a queue pair.
type fakeQueue struct {
	port   *fakePort
	mu     sync.Mutex
	inside []*mbuf.Buf
	rx, tx uint64
}

type (
	fakeRx fakeQueue
	fakeTx fakeQueue
)

func (q *fakeRx) Wait(context.Context) error { return nil }

func (q *fakeRx) Burst(bufs []*mbuf.Buf) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.port.explode {
		panic("out of order")
	}
	if q.port.hold != nil {
		q.port.hold <- struct{}{} // the worker is here …
		<-q.port.hold             // … and stays
	}
	n := copy(bufs, q.inside)
	q.inside = q.inside[n:]
	q.rx += uint64(n)
	return n
}

func (q *fakeRx) UseCache(*mbuf.Cache) {}
func (q *fakeRx) Err() error           { return nil }

func (q *fakeTx) Burst(bufs []*mbuf.Buf) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(bufs), fakeRing-len(q.inside))
	q.inside = append(q.inside, bufs[:n]...)
	q.tx += uint64(n)
	return n
}

func (q *fakeTx) Reclaim() int         { return 0 }
func (q *fakeTx) UseCache(*mbuf.Cache) {}
func (q *fakeTx) Err() error           { return nil }

// buffer is a writer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *buffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// take gives what was written since the last take.
func (w *buffer) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.b.Reset()
	return w.b.String()
}

// bench is a console on fake ports whose output and complaints go into one
// buffer.
type bench struct {
	*Console
	out   *buffer
	pool  *mbuf.Pool
	fakes []*fakePort
}

// ringMemory is the room beside the pool for the rings of real drivers.
const ringMemory = 1 << 20

func newBench(t testing.TB, ports int, change func(*Config)) *bench {
	t.Helper()
	const count = 2048
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(mbuf.DefaultSize) + ringMemory, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{out: &buffer{}, pool: pool}
	cfg := Config{Pool: pool, Cores: []Core{{ID: 1}, {ID: 2}}, Out: b.out, Err: b.out, Options: DefaultOptions()}
	cfg.Options.Interactive = true
	for id := range ports {
		b.fakes = append(b.fakes, newFakePort(id, b.out))
		cfg.Ports = append(cfg.Ports, b.fakes[id])
	}
	if change != nil {
		change(&cfg)
	}
	if b.Console, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

// run executes lines and gives what they printed.
func (b *bench) run(lines ...string) string {
	for _, line := range lines {
		b.Exec(line)
	}
	return b.out.take()
}

// started is a bench whose ports are started.
func startedBench(t testing.TB, ports int, change func(*Config)) *bench {
	b := newBench(t, ports, change)
	b.run("port start all")
	return b
}

// session runs the lines that stand behind a prompt in text and gives the
// session as it came out, prompts included.
func (b *bench) session(text string) string {
	var out strings.Builder
	for _, line := range strings.Split(text, "\n") {
		if command, ok := strings.CutPrefix(line, Prompt); ok {
			out.WriteString(line + "\n" + b.run(command))
		}
	}
	return out.String()
}
