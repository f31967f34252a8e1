package port_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/port/ringport"
)

// A loop that sleeps while nothing comes, on a cable whose other end sends one
// packet. With more queues there are more alarms; the loop stays the same.
func ExamplePoller() {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4 << 20, NoHuge: true})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 256})
	if err != nil {
		log.Fatal(err)
	}
	near, far, err := ringport.NewPair("near", "far", 64)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range []port.Port{near, far} {
		defer p.Close()
		if err := errors.Join(p.Configure(port.Config{Pool: pool, RxInterrupts: true}), p.Start()); err != nil {
			log.Fatal(err)
		}
	}

	alarm, err := port.AlarmOf(near.RxQueue(0))
	if err != nil {
		log.Fatal(err)
	}
	poller, err := port.NewPoller(50*time.Microsecond, alarm)
	if err != nil {
		log.Fatal(err)
	}
	defer poller.Close()

	time.AfterFunc(10*time.Millisecond, func() {
		b := pool.Get()
		copy(b.Append(60), "good morning")
		far.TxQueue(0).Burst([]*mbuf.Buf{b})
	})
	var pkts [32]*mbuf.Buf
	for received := 0; received == 0; {
		n := near.RxQueue(0).Burst(pkts[:])
		for _, b := range pkts[:n] {
			fmt.Printf("%s\n", b.Bytes()[:12])
			b.Free()
		}
		received += n
		poller.Next(n, time.Time{})
	}
	// Output: good morning
}
