package mbuf_test

import (
	"context"
	"fmt"
	"log"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
)

// Make packets of memory of the application's own.
func ExampleMemory_NewExternal() {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 1 << 20, NoHuge: true})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 16})
	if err != nil {
		log.Fatal(err)
	}
	area, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		log.Fatal(err)
	}
	reg, err := mem.Register(mbuf.Area{Bytes: area})
	if err != nil {
		log.Fatal(err)
	}
	n := copy(area, "one message, two packets")
	external, err := mem.NewExternal(area[:n], func() { fmt.Println("nobody uses it any more") })
	if err != nil {
		log.Fatal(err)
	}
	head, rest := pool.Get(), pool.Get()
	external.Attach(head, 0, 12)
	external.Attach(rest, 12, n-12)
	external.Release()
	fmt.Printf("%q %q\n", head.Bytes(), rest.Bytes())
	head.Free() // or have them sent
	rest.Free()
	if err := reg.Unregister(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// "one message," " two packets"
	// nobody uses it any more
}
