package driver_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
)

// Send a frame from memory of the application's own, as with AF_XDP.
func ExampleXSK() {
	dev := fakedev.New(fakedev.Config{})
	p, err := driver.Open(dev, driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	pool, end := start(p)
	defer end()

	// Any memory in whole pages will do, at any time.
	area, err := unix.Mmap(-1, 0, 64*2048, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		log.Fatal(err)
	}
	umem, err := driver.NewUMEM(pool.Memory(), driver.UMEMConfig{Area: mbuf.Area{Bytes: area}})
	if err != nil {
		log.Fatal(err)
	}
	xsk, err := p.NewXSK(umem, driver.XSKConfig{TxSize: 64})
	if err != nil {
		log.Fatal(err)
	}

	// A frame, with room for the header in front of it.
	const addr = 2048 + 128
	n := copy(area[addr:], "a frame of more than fourteen bytes")
	if xsk.Tx.Reserve(1) == 1 {
		*xsk.Tx.Slot(0) = driver.XSKDesc{Addr: addr, Len: uint32(n)}
		if err := xsk.Tx.Submit(1); err != nil {
			log.Fatal(err)
		}
	}
	xsk.Poll() // in the loop that polls the port
	frames, err := dev.Sent(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the device reads %q\n", frames[0].Data)

	xsk.Poll()
	done := umem.Completion.Peek(64)
	for i := range done {
		fmt.Printf("frame %#x is ours again\n", *umem.Completion.At(i))
	}
	if err := umem.Completion.Release(done); err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := xsk.Close(ctx); err != nil {
		log.Fatal(err)
	}
	if err := umem.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the device reads "a frame of more than fourteen bytes"
	// frame 0x880 is ours again
}
