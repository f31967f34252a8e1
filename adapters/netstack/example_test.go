package netstack_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"

	"vionet/adapters/netstack"
	"vionet/mbuf"
	"vionet/port/ringport"
)

// A web server and its client, each behind a TCP/IP stack of its own, at the two
// ends of a cable. With a driver.Device in place of an end, it is the network.
func ExampleNewHost() {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 32 << 20, NoHuge: true})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 8192})
	if err != nil {
		log.Fatal(err)
	}
	near, far, err := ringport.NewPair("near", "far", 0)
	if err != nil {
		log.Fatal(err)
	}
	server, err := netstack.NewHost(near, netstack.HostConfig{
		Link:      netstack.Config{Pool: pool},
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := netstack.NewHost(far, netstack.HostConfig{
		Link:      netstack.Config{Pool: pool},
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	l, err := server.Listen(netip.MustParseAddrPort("192.0.2.1:80"))
	if err != nil {
		log.Fatal(err)
	}
	pages := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "good morning")
	})}
	go pages.Serve(l)
	defer pages.Close()

	transport := &http.Transport{DialContext: client.DialContext}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("http://192.0.2.1/")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", text)
	// Output: good morning
}
