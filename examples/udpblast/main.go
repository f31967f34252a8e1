// Command udpblast sends UDP datagrams as fast as it can, or at a given rate,
// from frames of a UMEM: the device reads them where they were written.
//
//	udpblast -size 1456 -seconds 5
//	udpblast -socket /run/vhost.sock -rate 100000
//
// Without a socket there is an embedded device, which returns what is sent.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

// options are the flags.
type options struct {
	socket  string
	size    int
	seconds float64
	count   uint64
	rate    float64
	copies  bool
	sleep   bool
}

func main() {
	var o options
	flag.StringVar(&o.socket, "socket", "", "path of a vhost-user socket (default: an embedded device)")
	flag.IntVar(&o.size, "size", 64, "bytes of each frame, 50 to 1514")
	flag.Float64Var(&o.seconds, "seconds", 5, "how long to send")
	flag.Uint64Var(&o.count, "count", 0, "how many frames to send (default: no limit)")
	flag.Float64Var(&o.rate, "rate", 0, "frames a second (default: flat out)")
	flag.BoolVar(&o.copies, "copy", false, "copy each frame into a buffer of a pool instead")
	flag.BoolVar(&o.sleep, "sleep", false, "sleep while the ring is full, instead of polling")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := blast(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "udpblast:", err)
		os.Exit(1)
	}
	fmt.Printf("%d frames of %d bytes in %.2f s: %.0f frames/s, %.2f Gb/s, CPU of the sender %.1f %%\n",
		r.frames, o.size, r.elapsed.Seconds(), r.rate(), r.rate()*float64(o.size)*8/1e9, 100*r.cpu.Seconds()/r.elapsed.Seconds())
}

// result is what was sent, how long that took, and the processor time of the
// sending thread.
type result struct {
	frames       uint64
	elapsed, cpu time.Duration
}

func (r result) rate() float64 { return float64(r.frames) / r.elapsed.Seconds() }

// blast opens the device, sends, and closes it when every frame was sent.
func blast(ctx context.Context, o options) (r result, err error) {
	if o.size < minFrame || o.size > maxFrame {
		return r, fmt.Errorf("frames of %d bytes: must be %d to %d", o.size, minFrame, maxFrame)
	}
	transport, closeDevice, err := connect(o.socket)
	if err != nil {
		return r, err
	}
	defer closeDevice()
	dev, err := driver.Open(transport, driver.Options{EventIdx: o.sleep})
	if err != nil {
		return r, err
	}
	defer dev.Close()
	a := dev.Addressing()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 16 << 20, IOVA: a.Mode, Ranges: a.Ranges})
	if err != nil {
		return r, err
	}
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 4096})
	if err != nil {
		return r, err
	}
	if err := dev.Configure(port.Config{Pool: pool, TxInterrupts: o.sleep}); err != nil {
		return r, err
	}
	if err := dev.Start(); err != nil {
		return r, err
	}
	send := zeroCopy
	if o.copies {
		send = copying
	}
	return send(ctx, dev, pool, o)
}

// connect dials the socket, or starts the embedded device and dials that.
func connect(socket string) (t driver.Transport, closeDevice func(), err error) {
	if socket != "" {
		f, err := vhost.Dial(socket, vhost.FrontendConfig{})
		return f, func() {}, err
	}
	device, err := vhost.StartLoopback(vhost.LoopbackConfig{})
	if err != nil {
		return nil, nil, err
	}
	f, err := device.Dial(vhost.FrontendConfig{})
	return f, func() { device.Close() }, err
}

// threadTime is the processor time that the calling thread has had.
func threadTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
