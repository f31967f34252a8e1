package driver_test

import (
	"fmt"
	"log"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// Open a device, receive a burst and send it back. The fake device stands in
// for a transport of package pci or vhost; nothing else would differ.
func Example() {
	dev := fakedev.New(fakedev.Config{})
	p, err := driver.Open(dev, driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Memory that the device can reach, and buffers in it.
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 8 << 20, IOVA: p.Addressing().Mode, Ranges: p.Addressing().Ranges})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 2048})
	if err != nil {
		log.Fatal(err)
	}

	if err := p.Configure(port.Config{Pool: pool}); err != nil {
		log.Fatal(err)
	}
	if err := p.Start(); err != nil {
		log.Fatal(err)
	}

	// The world sends a frame.
	if err := dev.Deliver(0, virtio.NetHeader{}, []byte("a frame of more than fourteen bytes")); err != nil {
		log.Fatal(err)
	}

	// The loop of a program that echoes: whatever Burst returns is ours until
	// the transmit queue takes it.
	rx, tx := p.RxQueue(0), p.TxQueue(0)
	var pkts [32]*mbuf.Buf
	n := rx.Burst(pkts[:])
	for _, b := range pkts[:n] {
		fmt.Printf("received %q\n", b.Bytes())
	}
	sent := tx.Burst(pkts[:n])
	for _, b := range pkts[sent:n] {
		b.Free() // the queue was full
	}

	frames, err := dev.Sent(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d frame came back: %q\n", len(frames), frames[0].Data)
	// Output:
	// received "a frame of more than fourteen bytes"
	// 1 frame came back: "a frame of more than fourteen bytes"
}

// The burst functions follow from what is asked for at Start, and the port
// says why.
func ExampleDevice_Paths() {
	p, err := driver.Open(fakedev.New(fakedev.Config{}), driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 8 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 2048})
	if err != nil {
		log.Fatal(err)
	}
	for _, offloads := range []port.TxOffloads{0, port.TxTCPCksum} {
		if err := p.Configure(port.Config{Pool: pool, TxOffloads: offloads}); err != nil {
			log.Fatal(err)
		}
		if err := p.Start(); err != nil {
			log.Fatal(err)
		}
		path := p.Paths().Tx
		fmt.Printf("%s: %s\n", path.Name, path.Reason)
		if err := p.Stop(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// simple: no Tx offload
	// standard: Tx offloads are on: TCP_CKSUM
}
