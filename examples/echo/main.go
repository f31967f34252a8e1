// Command echo returns every frame to where it came from, with the addresses of
// Ethernet and IP exchanged. It is the smallest whole program on the queues of a
// port.
//
//	echo -a 0000:00:04.0
//
// Without a device there is an embedded one, which returns every frame as well, and
// a few frames are sent to begin with. Ctrl-C ends it.
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

	"vionet/examples/internal/device"
	"vionet/mbuf"
	"vionet/port"
)

const burst = 32 // frames that are received, and sent, at a time

func main() {
	names := device.Flag()
	count := flag.Uint64("count", 0, "how many frames to return (default: no limit)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	returned, err := echo(ctx, *names, *count)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("returned %d frames\n", returned)
}

// echo returns frames until ctx is done, or it has returned count of them.
func echo(ctx context.Context, names []string, count uint64) (returned uint64, err error) {
	devices, err := device.Open(device.Config{Names: names})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, devices.Close()) }()
	if err := devices.Start(port.Config{}); err != nil {
		return 0, err
	}
	if devices.Embedded {
		if err := devices.Seed(burst); err != nil {
			return 0, err
		}
	}
	rx, tx := devices.Ports[0].RxQueue(0), devices.Ports[0].TxQueue(0)
	var pkts [burst]*mbuf.Buf
	for ctx.Err() == nil && (count == 0 || returned < count) {
		n := rx.Burst(pkts[:])
		for _, b := range pkts[:n] {
			turn(b.Bytes())
		}
		sent := tx.Burst(pkts[:n])
		for _, b := range pkts[sent:n] {
			b.Free() // the ring is full
		}
		returned += uint64(sent)
		if n == 0 {
			runtime.Gosched() // an embedded device may wait for this very processor
		}
	}
	return returned, nil
}

// turn exchanges the addresses of a frame. The checksums stay right: they do not
// depend on the order.
func turn(f []byte) {
	if len(f) < 14 {
		return
	}
	exchange(f[0:6], f[6:12])
	ip := f[14:]
	switch etherType := [2]byte(f[12:14]); {
	case etherType == [2]byte{0x08, 0x00} && len(ip) >= 20:
		exchange(ip[12:16], ip[16:20])
	case etherType == [2]byte{0x86, 0xdd} && len(ip) >= 40:
		exchange(ip[8:24], ip[24:40])
	}
}

func exchange(a, b []byte) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}
