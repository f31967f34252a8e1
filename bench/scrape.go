package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"vionet/bench/peer"
	"vionet/bench/turns"
)

// scrapeEvery is the time between two scrapes, and the length of a window: each has
// one, or none.
const scrapeEvery = time.Second

// scraping is a guest that sends, with or without somebody who looks at its metrics:
// both are the same processes, so that nothing else differs.
type scraping struct {
	*peer.Group
	url string // "": nobody looks
}

// Scrape prints what a scrape a second takes of the rate. The guest has one
// processor for its core, its scrapes and everything else.
func (s Settings) Scrape(ctx context.Context) error {
	restore, err := s.begin()
	if err != nil {
		return err
	}
	defer restore()
	addr, err := freeAddress()
	if err != nil {
		return err
	}
	var processes *peer.Group
	start := func(ctx context.Context, dir string) (turns.Contestant[peer.Sample], error) {
		path := peer.Socket(dir, "scrape", 0)
		host := part{End: peer.DPDK, name: "host", core: peerCore, vdevs: []string{backEnd(0, path)}, options: []string{"--no-lsc-interrupt", "--forward-mode=rxonly"}}
		guest := part{End: peer.Vionet, name: "guest", core: switchCore, machine: []string{"--metrics", addr}, vdevs: []string{frontEnd(0, path)}, options: []string{"--forward-mode=txonly"}}
		var err error
		processes, err = switching{vionet: s.Vionet}.start(ctx, dir, "guest", 0, 0, host, guest)
		return scraping{Group: processes}, err
	}
	scraped := func(context.Context, string) (turns.Contestant[peer.Sample], error) {
		return scraping{processes, "http://" + addr + "/metrics"}, nil
	}
	s.Window = scrapeEvery
	r, err := turns.Compete(ctx, s.plan(), start, scraped)
	if err != nil {
		return err
	}
	s.printf("\n### A scrape a second, guest to host, split, 64 B\n\n")
	s.println("| without Mpps | with Mpps | ratio q1 | ratio median | ratio q3 | to reach |")
	s.println("|---|---|---|---|---|---|")
	s.printf("| %s | 0.98 |\n", compared(r.Samples[0], r.Samples[1]))
	return nil
}

// Measure scrapes in the middle of the window.
func (c scraping) Measure(ctx context.Context, window time.Duration) (peer.Sample, error) {
	if c.url == "" {
		return c.Group.Measure(ctx, window)
	}
	outcome := make(chan error, 1)
	time.AfterFunc(peer.WarmUp+window/2, func() { outcome <- scrape(ctx, c.url) })
	s, err := c.Group.Measure(ctx, window)
	if failed := <-outcome; err == nil {
		err = failed
	}
	return s, err
}

// scrape does what Prometheus does, but for keeping the answer.
func scrape(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || n == 0) {
		err = fmt.Errorf("%s: status %s, %d bytes", url, answer.Status, n)
	}
	return err
}

// freeAddress is one that nobody listens at.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
