// Command l2switch is a learning Ethernet switch between virtio ports. It shows
// how a program sorts packets by destination, and lets small batches wait in
// front of each transmit queue.
//
//	l2switch -a 0000:00:04.0 -a /run/vhost.sock
//
// switches between PCI functions and vhost-user sockets. Without devices it opens
// two embedded ones, which return every frame, and sends a few that then go to and
// fro. Ctrl-C ends it and prints what each port did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"time"

	"vionet/driver"
	"vionet/examples/internal/device"
	"vionet/port"
)

const burst = 32 // packets that are received, and sent, at a time

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	names := device.Flag()
	flag.Parse()
	if err := run(ctx, *names); err != nil {
		log.Fatal(err)
	}
}

// run switches between the devices of those names until ctx is done.
func run(ctx context.Context, names []string) (err error) {
	devices, err := device.Open(device.Config{Names: names, Devices: 2})
	if err != nil {
		return err
	}
	s := &l2switch{table: map[[6]byte]*link{}, cache: devices.Pool.NewCache(0)}
	defer func() { err = errors.Join(err, s.close(), devices.Close()) }()
	if err := devices.Start(port.Config{}); err != nil {
		return err
	}
	for _, dev := range devices.Ports {
		if err := s.add(dev); err != nil {
			return err
		}
	}
	fmt.Printf("switching between %d ports, Ctrl-C ends\n", len(s.links))
	if devices.Embedded {
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

// add makes a link of a started port.
func (s *l2switch) add(dev *driver.Device) error {
	tx, err := driver.NewTxBuffer(dev.TxQueue(0), driver.TxBufferConfig{Size: burst, Desc: dev.Info().TxDesc})
	if err != nil {
		return err
	}
	l := &link{Device: dev, rx: dev.RxQueue(0), tx: tx}
	l.rx.UseCache(s.cache)
	l.tx.UseCache(s.cache)
	s.links = append(s.links, l)
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
		l.tx.Close() // before its port stops
	}
	s.cache.Flush()
	for i, l := range s.links {
		err = errors.Join(err, l.Device.Close())
		n := l.Stats()
		fmt.Printf("port %d: received %d, sent %d\n", i, n.RxPackets, n.TxPackets)
		w := l.tx.Stats()
		fmt.Printf("  %d bursts of %.1f packets, %d dropped\n", w.Flushes(), w.PerFlush(), w.Dropped)
	}
	return err
}
