// Command udpblast sends UDP datagrams as fast as it can, or at a given rate,
// from frames of a UMEM: the device reads them where they were written.
//
//	udpblast -size 1456 -seconds 5
//	udpblast -a /run/vhost.sock -rate 100000
//
// Without a device there is an embedded one, which returns what is sent.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"vionet/driver"
	"vionet/examples/internal/device"
	"vionet/port"
)

const burst = 32 // frames at a time

// ringSize is the number of descriptors. It is large for a sender that sleeps: by
// the time that it is awake, a fast device has taken hundreds of frames.
const ringSize = 1024

// options are the flags.
type options struct {
	devices        []string
	size           int
	seconds, rate  float64
	count          uint64
	copying, sleep bool
}

func main() {
	var o options
	names := device.Flag()
	flag.IntVar(&o.size, "size", 64, "bytes of each frame, 50 to 1514")
	flag.Float64Var(&o.seconds, "seconds", 5, "how long to send")
	flag.Uint64Var(&o.count, "count", 0, "how many frames to send (default: no limit)")
	flag.Float64Var(&o.rate, "rate", 0, "frames a second (default: flat out)")
	flag.BoolVar(&o.copying, "copy", false, "copy each frame into a buffer of a pool instead")
	flag.BoolVar(&o.sleep, "sleep", false, "sleep while the ring is full, instead of polling")
	flag.Parse()
	o.devices = *names
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	sent, took, err := blast(ctx, o)
	if err != nil {
		log.Fatal(err)
	}
	rate := float64(sent) / took.Seconds()
	fmt.Printf("%d frames of %d bytes in %.2f s: %.0f frames/s, %.2f Gb/s\n", sent, o.size, took.Seconds(), rate, rate*float64(o.size)*8/1e9)
}

// blast starts a port, sends, and closes the port when every frame was sent.
func blast(ctx context.Context, o options) (sent uint64, took time.Duration, err error) {
	if o.size < device.MinSize || o.size > 1514 {
		return 0, 0, fmt.Errorf("frames of %d bytes: must be %d to 1514", o.size, device.MinSize)
	}
	devices, err := device.Open(device.Config{Names: o.devices, QueueSize: ringSize, Options: driver.Options{EventIdx: o.sleep}})
	if err != nil {
		return 0, 0, err
	}
	defer devices.Close()
	if err := devices.Start(port.Config{TxInterrupts: o.sleep}); err != nil {
		return 0, 0, err
	}
	dev := devices.Ports[0]
	s, err := newSender(dev, devices.Pool, o)
	if err != nil {
		return 0, 0, err
	}
	begin, end := time.Now(), time.Duration(o.seconds*1e9)
	for ; took < end && ctx.Err() == nil && (o.count == 0 || sent < o.count); took = time.Since(begin) {
		n := uint64(burst)
		if o.rate > 0 && took.Seconds()*o.rate < float64(sent+burst) {
			n = 0 // a whole burst is not due yet
		}
		if o.count > 0 {
			n = min(n, o.count-sent)
		}
		if n = uint64(s.send(int(n), sent)); n == 0 {
			pause(ctx, dev.TxQueue(0), o)
		}
		sent += n
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return sent, took, s.drain(drain)
}
