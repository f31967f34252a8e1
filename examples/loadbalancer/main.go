// Command loadbalancer spreads flows over servers: each frame goes back out with the
// address of the server that its flow belongs to, and nothing else changed, so that
// the servers answer the client themselves (direct server return). Which server that
// is follows from the 5-tuple alone: every queue, and every balancer with the same
// list, decides alike, and none keeps a table.
//
//	loadbalancer -a 0000:00:04.0 -queues 2 -server 02:00:00:00:00:11 -server 02:00:00:00:00:12
//
// One goroutine drives each queue pair. Without a device there is an embedded one,
// which returns every frame, and a few flows are sent to begin with. Ctrl-C ends it
// and prints how many frames were for each server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"

	"vionet/examples/internal/device"
	"vionet/mbuf"
	"vionet/offload"
	"vionet/port"
)

const burst = 32 // frames that are received, and sent, at a time

// options are the flags.
type options struct {
	devices []string
	queues  int
	servers [][6]byte
	count   uint64
}

func main() {
	var o options
	names := device.Flag()
	flag.IntVar(&o.queues, "queues", 2, "queue pairs, each with a goroutine of its own")
	flag.Uint64Var(&o.count, "count", 0, "how many frames each queue forwards (default: no limit)")
	flag.Func("server", "`address` of a server; may be given several times", func(text string) error {
		mac, err := net.ParseMAC(text)
		if err == nil && len(mac) != 6 {
			err = errors.New("must have 6 bytes")
		}
		if err == nil {
			o.servers = append(o.servers, [6]byte(mac))
		}
		return err
	})
	flag.Parse()
	o.devices = *names
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := balance(ctx, o, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// balance forwards until ctx is done, or each queue has forwarded count frames.
func balance(ctx context.Context, o options, out io.Writer) (err error) {
	if len(o.servers) == 0 {
		return errors.New("no server: name one or more with -server")
	}
	devices, err := device.Open(device.Config{Names: o.devices, Queues: o.queues})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, devices.Close()) }()
	if err := devices.Start(port.Config{RxQueues: o.queues, TxQueues: o.queues}); err != nil {
		return err
	}
	if devices.Embedded {
		if err := devices.Seed(burst); err != nil {
			return err
		}
	}
	dev := devices.Ports[0]
	var pairs []*pair
	var all sync.WaitGroup
	for i := range o.queues {
		p := &pair{
			rx: dev.RxQueue(i), tx: dev.TxQueue(i),
			us: [6]byte(dev.Info().MAC), servers: o.servers, chosen: make([]uint64, len(o.servers)),
		}
		pairs = append(pairs, p)
		all.Go(func() { p.run(ctx, o.count) })
	}
	all.Wait() // also before the device is stopped
	for i, mac := range o.servers {
		sum := uint64(0)
		for _, p := range pairs {
			sum += p.chosen[i]
		}
		fmt.Fprintf(out, "server %v: %d frames\n", net.HardwareAddr(mac[:]), sum)
	}
	return nil
}

// pair is a queue pair. Nothing of it is shared with the others.
type pair struct {
	rx      port.RxQueue
	tx      port.TxQueue
	us      [6]byte
	servers [][6]byte
	chosen  []uint64 // frames for each server, those too that the ring had no room for
	pkts    [burst]*mbuf.Buf
}

// run is the pair's goroutine.
func (p *pair) run(ctx context.Context, count uint64) {
	for moved := uint64(0); ctx.Err() == nil && (count == 0 || moved < count); {
		n := p.forward()
		if n == 0 {
			runtime.Gosched() // an embedded device may wait for this very processor
		}
		moved += uint64(n)
	}
}

// forward moves a burst, and returns how many frames left.
func (p *pair) forward() int {
	keep := p.pkts[:0]
	for _, b := range p.pkts[:p.rx.Burst(p.pkts[:])] {
		frame := b.Bytes()
		flow, ok := offload.FlowHash(frame)
		if !ok {
			b.Free() // ARP and the like are not the servers' business
			continue
		}
		server := flow % uint32(len(p.servers))
		copy(frame[0:6], p.servers[server][:])
		copy(frame[6:12], p.us[:])
		p.chosen[server]++
		keep = append(keep, b)
	}
	sent := p.tx.Burst(keep)
	for _, b := range keep[sent:] {
		b.Free() // the ring is full
	}
	return sent
}
