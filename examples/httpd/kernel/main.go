// Command kernel serves the pages of httpd on the kernel's stack, for comparison.
// It is the program of a guest, whose eth0 it gives the address.
//
//	kernel 192.0.2.2/24
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"

	"vionet/examples/httpd/pages"
	"vionet/scripts/lab/inet"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: kernel PREFIX")
	}
	prefix, err := netip.ParsePrefix(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := inet.Configure("eth0", prefix); err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp4", ":80")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("serving http://%s on eth0\n", prefix)
	log.Fatal(http.Serve(l, pages.Handler()))
}
