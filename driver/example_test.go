package driver_test

import (
	"errors"
	"fmt"
	"log"
	"net"
	"time"

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

// start gives a port buffers and starts it, as Example does; end closes it.
func start(p port.Port) (pool *mbuf.Pool, end func()) {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 8 << 20})
	if err != nil {
		log.Fatal(err)
	}
	if pool, err = mbuf.NewPool(mem, mbuf.PoolConfig{Count: 2048}); err != nil {
		log.Fatal(err)
	}
	if err := p.Configure(port.Config{Pool: pool}); err != nil {
		log.Fatal(err)
	}
	if err := p.Start(); err != nil {
		log.Fatal(err)
	}
	return pool, func() {
		p.Close()
		mem.Close()
	}
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

// Info prints what there is to know of a port: what the device offers, what of that
// was taken, and which burst functions follow from it.
func ExampleDevice_Info() {
	p, err := driver.Open(fakedev.New(fakedev.Config{MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}}), driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, end := start(p)
	defer end()
	fmt.Println(p.Info())
	// Output:
	// fake0 (net_virtio) 52:54:00:00:00:01, MTU 1500
	//   offered     CSUM GUEST_CSUM MTU MAC GUEST_TSO4 GUEST_TSO6 HOST_TSO4 HOST_TSO6 MRG_RXBUF STATUS VERSION_1
	//   negotiated  MTU MAC MRG_RXBUF STATUS VERSION_1
	//   receive     1 queue of 256 descriptors, mergeable buffer: MRG_RXBUF is negotiated: a packet may span buffers (simpler: open the port with mrg_rxbuf=0)
	//   transmit    1 queue of 256 descriptors, simple: no Tx offload
	//   addresses   va
}

// Errors are values to ask: a sentinel of package port, and a type that tells more.
func ExampleFeatureError() {
	p, err := driver.Open(fakedev.New(fakedev.Config{Offered: virtio.Version1}), driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	pool, end := start(p)
	defer end()
	if err := p.Stop(); err != nil {
		log.Fatal(err)
	}
	err = p.Configure(port.Config{Pool: pool, TxOffloads: port.TxTCPCksum})
	var missing *driver.FeatureError
	fmt.Println(errors.Is(err, port.ErrNotSupported), errors.As(err, &missing), missing.Missing)
	// Output:
	// true true CSUM
}

// A loop that sends small batches puts a buffer in front of the queue, and polls
// it with a clock that it reads once a round, when something waits.
func ExampleTxBuffer() {
	dev := fakedev.New(fakedev.Config{})
	p, err := driver.Open(dev, driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	pool, end := start(p)
	defer end()

	tx, err := driver.NewTxBuffer(p.TxQueue(0), driver.TxBufferConfig{
		Size: 32, Desc: p.Info().TxDesc,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Close() // before the port stops
	begin := time.Now()
	for tx.Stats().Flushes() < 3 {
		b := pool.Get()
		b.Append(64)
		tx.Burst([]*mbuf.Buf{b})
		if tx.Waiting() > 0 {
			tx.Poll(time.Since(begin))
		}
		// Here the device sends, in a real one's own time.
		if _, err := dev.Sent(0); err != nil {
			log.Fatal(err)
		}
	}
	tx.Flush()

	s := tx.Stats()
	fmt.Println("every packet went:", s.Packets == p.Stats().TxPackets, "and none was dropped:", s.Dropped == 0)
	// Output:
	// every packet went: true and none was dropped: true
}

// Programs that send now and then, from several goroutines, need no loop.
func ExampleSharedTxBuffer() {
	null, err := port.NewNull(port.NullConfig{})
	if err != nil {
		log.Fatal(err)
	}
	pool, end := start(null)
	defer end()

	tx, err := driver.NewSharedTxBuffer(null.TxQueue(0), driver.TxBufferConfig{Size: 32, Drain: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Close() // before the port stops

	b := pool.Get()
	b.Append(64)
	tx.Burst([]*mbuf.Buf{b})
	for tx.Stats().Packets == 0 { // the buffer sends it by itself
		time.Sleep(time.Millisecond)
	}
	fmt.Println("flushes because packets had waited long enough:", tx.Stats().Late)
	// Output:
	// flushes because packets had waited long enough: 1
}
