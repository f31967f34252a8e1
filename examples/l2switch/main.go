// Command l2switch is a learning Ethernet switch between virtio ports. It shows
// how a program sorts packets by destination, and lets small batches wait in
// front of each transmit queue.
//
//	l2switch SOCKET SOCKET...
//
// opens a port on each vhost-user back end. Without sockets it opens two embedded
// devices, which return every frame, and sends a few that then go to and fro.
// Ctrl-C ends it and prints what each port did.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

const burst = 32 // packets that are received, and sent, at a time

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

// run switches until ctx is done.
func run(ctx context.Context, sockets []string) (err error) {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 32 << 20, NoHuge: true})
	if err != nil {
		return err
	}
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 8192})
	if err != nil {
		return err
	}
	s := &l2switch{table: map[[6]byte]*link{}, cache: pool.NewCache(0)}
	defer func() { err = errors.Join(err, s.close(), pool.Close(), mem.Close()) }()
	for _, path := range sockets {
		if err := s.add(vhost.Dial(path, vhost.FrontendConfig{})); err != nil {
			return err
		}
	}
	for len(sockets) == 0 && len(s.links) < 2 {
		device, err := vhost.StartLoopback(vhost.LoopbackConfig{}) // ends with the program
		if err != nil {
			return err
		}
		if err := s.add(device.Dial(vhost.FrontendConfig{})); err != nil {
			return err
		}
	}
	fmt.Printf("switching between %d ports, Ctrl-C ends\n", len(s.links))
	if len(sockets) == 0 {
		s.sendFirst()
	}
	for begin := time.Now(); ctx.Err() == nil; {
		if s.forward() == 0 {
			runtime.Gosched()
		}
		now := time.Since(begin) // one reading for all ports
		for _, l := range s.links {
			l.tx.Poll(now)
		}
	}
	return nil
}

// add makes a port of the device behind a transport.
func (s *l2switch) add(t *vhost.Frontend, err error) error {
	if err != nil {
		return err
	}
	dev, err := driver.Open(t, driver.Options{ID: len(s.links)})
	if err != nil {
		return err
	}
	l := &link{Device: dev}
	s.links = append(s.links, l)
	if err := dev.Configure(port.Config{Pool: s.cache.Pool()}); err != nil {
		return err
	}
	if err := dev.Start(); err != nil {
		return err
	}
	l.rx = dev.RxQueue(0)
	l.tx, err = driver.NewTxBuffer(dev.TxQueue(0), driver.TxBufferConfig{
		Size: burst, Desc: dev.Info().TxDesc,
	})
	if err != nil {
		return err
	}
	l.rx.UseCache(s.cache)
	l.tx.UseCache(s.cache)
	return nil
}

// sendFirst sends frames from one address to another, out of the first port.
func (s *l2switch) sendFirst() {
	for range burst {
		if b := s.cache.Pool().Get(); b != nil {
			copy(b.Append(64), "\x02\x00\x00\x00\x00\x02"+"\x02\x00\x00\x00\x00\x01"+"\x88\xb5") // an EtherType for experiments
			s.links[0].out = append(s.links[0].out, b)
		}
	}
	s.links[0].send()
}

// close sends what waits, stops the ports and says what they did.
func (s *l2switch) close() (err error) {
	for _, l := range s.links {
		if l.tx != nil {
			l.tx.Close() // before its port stops
		}
	}
	s.cache.Flush()
	for i, l := range s.links {
		err = errors.Join(err, l.Device.Close())
		n := l.Stats()
		fmt.Printf("port %d: received %d, sent %d\n", i, n.RxPackets, n.TxPackets)
		if l.tx != nil {
			n := l.tx.Stats()
			fmt.Printf("  %d bursts of %.1f packets, %d dropped\n", n.Flushes(), n.PerFlush(), n.Dropped)
		}
	}
	return err
}
