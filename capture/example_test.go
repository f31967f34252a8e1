package capture_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"vionet/capture"
	"vionet/mbuf"
	"vionet/port"
)

// Capture what a program sends for a while, without stopping it.
func ExampleTap() {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4 << 20, NoHuge: true})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 256})
	if err != nil {
		log.Fatal(err)
	}
	p, err := port.NewNull(port.NullConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := p.Configure(port.Config{Pool: pool}); err != nil {
		log.Fatal(err)
	}
	if err := p.Start(); err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "capture")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	var tap capture.Tap
	tx := tap.TxQueue(p.TxQueue(0), capture.Source{}) // the one to drive from now on
	send := func() {
		b := pool.Get()
		b.Append(64)
		tx.Burst([]*mbuf.Buf{b})
	}
	send()
	rec, err := capture.Record(filepath.Join(dir, "sent.pcapng"), capture.Config{
		Sources: []capture.Source{{Dir: capture.Tx}},
	})
	if err != nil {
		log.Fatal(err)
	}
	tap.Set(rec)
	send()
	send()
	tap.Set(nil)
	if err := rec.Stop(); err != nil {
		log.Fatal(err)
	}
	send()
	written, leftOut := rec.Counts()
	fmt.Println("written:", written, "left out:", leftOut)
	// Output:
	// written: 2 left out: 0
}
