package vhost_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

// newPool makes a pool of 1024 buffers; vhost-user has no use for hugepages.
func newPool() *mbuf.Pool {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4 << 20, NoHuge: true})
	if err != nil {
		log.Fatal(err)
	}
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 1024})
	if err != nil {
		log.Fatal(err)
	}
	return pool
}

// start starts a port with one queue pair that can sleep.
func start(p port.Port, pool *mbuf.Pool) {
	if err := p.Configure(port.Config{Pool: pool, RxInterrupts: true}); err != nil {
		log.Fatal(err)
	}
	if err := p.Start(); err != nil {
		log.Fatal(err)
	}
}

// A host receives what a guest sends, in the guest's own memory. The guest is
// this driver here; it could as well be QEMU's.
func ExampleNewPort() {
	host, err := vhost.NewPort(vhost.PortConfig{Path: "@vionet-example-port", ZeroCopy: true})
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	start(host, newPool())

	front, err := vhost.Dial("@vionet-example-port", vhost.FrontendConfig{})
	if err != nil {
		log.Fatal(err)
	}
	guest, err := driver.Open(front, driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer guest.Close()
	pool := newPool()
	start(guest, pool)
	b := pool.Get()
	copy(b.Append(1400), "a large frame from the guest")
	guest.TxQueue(0).Burst([]*mbuf.Buf{b})

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rx := host.RxQueue(0)
	var pkts [32]*mbuf.Buf
	n := 0
	for n == 0 {
		if err := rx.Wait(ctx); err != nil {
			log.Fatal(err)
		}
		n = rx.Burst(pkts[:])
	}
	fmt.Printf("%q, %d bytes, lent: %v\n", pkts[0].Bytes()[:28], pkts[0].Len(), pkts[0].Lent())
	pkts[0].Free() // from now on the guest may use its buffer again
	// Output:
	// "a large frame from the guest", 1400 bytes, lent: true
}

// A back end without a port around it: frames go in and out as bytes.
func ExampleListen() {
	back, err := vhost.Listen("@vionet-example-backend", vhost.BackendConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer back.Close()

	front, err := vhost.Dial("@vionet-example-backend", vhost.FrontendConfig{})
	if err != nil {
		log.Fatal(err)
	}
	guest, err := driver.Open(front, driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer guest.Close()
	start(guest, newPool())

	// The guest's receive queue takes frames as soon as its ring runs.
	frames := []vhost.Frame{{Data: []byte("a frame for the guest")}}
	for back.RxQueue(0).Enqueue(frames) == 0 {
		<-back.Kicked()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var pkts [32]*mbuf.Buf
	n := 0
	for n == 0 {
		if err := guest.RxQueue(0).Wait(ctx); err != nil {
			log.Fatal(err)
		}
		n = guest.RxQueue(0).Burst(pkts[:])
	}
	fmt.Printf("%q\n", pkts[0].Bytes())
	pkts[0].Free()
	// Output:
	// "a frame for the guest"
}
