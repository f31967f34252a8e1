// Command l2fwd forwards frames between ports, two and two: what the first of a pair
// receives leaves by the second, and the other way round. Each frame gets the port
// that it leaves by as its sender, and 02:00:00:00:00:N as its destination, where N
// is the number of that port.
//
//	l2fwd -a 0000:00:04.0 -a 0000:00:05.0
//
// Without devices there are two embedded ones, which return every frame, and a few
// frames are sent to begin with. Ctrl-C ends it and prints what each port did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"

	"vionet/driver"
	"vionet/examples/internal/device"
	"vionet/mbuf"
	"vionet/port"
)

const burst = 32 // frames that are received, and sent, at a time

func main() {
	names := device.Flag()
	count := flag.Uint64("count", 0, "how many frames to forward (default: no limit)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *names, *count, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run forwards until ctx is done, or it has forwarded count frames.
func run(ctx context.Context, names []string, count uint64, out io.Writer) (err error) {
	devices, err := device.Open(device.Config{Names: names, Devices: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, devices.Close()) }()
	if n := len(devices.Ports); n%2 != 0 {
		return fmt.Errorf("%d devices: forwarding takes pairs: name one more", n)
	}
	if err := devices.Start(port.Config{}); err != nil {
		return err
	}
	if devices.Embedded {
		if err := devices.Seed(burst); err != nil {
			return err
		}
	}
	lanes := lanesBetween(devices.Ports)
	for sent := uint64(0); ctx.Err() == nil && (count == 0 || sent < count); {
		moved := 0
		for _, l := range lanes {
			moved += l.forward()
		}
		if moved == 0 {
			runtime.Gosched() // an embedded device may wait for this very processor
		}
		sent += uint64(moved)
	}
	for i, dev := range devices.Ports {
		n := dev.Stats()
		fmt.Fprintf(out, "port %d: received %d, sent %d, dropped %d\n", i, n.RxPackets, n.TxPackets, lanes[i^1].dropped)
	}
	return nil
}

// lane is a way from one port to another.
type lane struct {
	rx       port.RxQueue
	tx       port.TxQueue
	dst, src [6]byte // what every frame that leaves has
	dropped  uint64  // for want of room in the transmit queue
	pkts     [burst]*mbuf.Buf
}

// lanesBetween gives the way from each port to its partner. One goroutine drives
// all of them.
func lanesBetween(ports []*driver.Device) (lanes []*lane) {
	for i, from := range ports {
		to := ports[i^1]
		lanes = append(lanes, &lane{
			rx:  from.RxQueue(0),
			tx:  to.TxQueue(0),
			dst: [6]byte{2, 0, 0, 0, 0, byte(i ^ 1)},
			src: [6]byte(to.Info().MAC),
		})
	}
	return lanes
}

// forward moves a burst, and returns how many frames left.
func (l *lane) forward() int {
	n := l.rx.Burst(l.pkts[:])
	for _, b := range l.pkts[:n] {
		if frame := b.Bytes(); len(frame) >= 12 {
			copy(frame[0:6], l.dst[:])
			copy(frame[6:12], l.src[:])
		}
	}
	sent := l.tx.Burst(l.pkts[:n])
	for _, b := range l.pkts[sent:n] {
		b.Free()
		l.dropped++
	}
	return sent
}
