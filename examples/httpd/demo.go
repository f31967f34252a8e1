package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"vionet/adapters/netstack"
	"vionet/examples/httpd/pages"
	"vionet/mbuf"
	"vionet/port/ringport"
)

// demonstrate serves at one end of a cable what a client at the other fetches.
func demonstrate(ctx context.Context, o options, out io.Writer) error {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 32 << 20, NoHuge: true})
	if err != nil {
		return err
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 8192})
	if err != nil {
		return err
	}
	near, far, err := ringport.NewPair("cable0", "cable1", 0)
	if err != nil {
		return err
	}
	h, l, err := listen(near, pool, o)
	if err != nil {
		return errors.Join(err, far.Close())
	}
	defer h.Close()
	client, err := newHost(far, pool, "192.0.2.1/24", o)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, done := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l) }()
	err = fetch(ctx, client, o, out)
	done()
	return errors.Join(err, <-served)
}

// fetch gets bytes from the server at the other end of the cable, and compares
// them.
func fetch(ctx context.Context, h *netstack.Host, o options, out io.Writer) error {
	prefix, err := netip.ParsePrefix(o.ip)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://%v:%d/bytes/%d", prefix.Addr(), o.port, o.demo)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: h.DialContext}
	defer transport.CloseIdleConnections()
	begin := time.Now()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, answer.Body)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if [sha256.Size]byte(sum.Sum(nil)) != pages.Sum(o.demo) {
		return fmt.Errorf("%d bytes of %s arrived damaged", n, url)
	}
	fmt.Fprintf(out, "fetched %d bytes in %.2f s: %.2f Gb/s\n", n, took.Seconds(), float64(n)*8/1e9/took.Seconds())
	return nil
}
