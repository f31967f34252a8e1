package driveronly

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vionet/bench/report"
	"vionet/driver"
	"vionet/vhost"
)

// TestLoops runs every kind of loop against the back end, until it has moved packets.
func TestLoops(t *testing.T) {
	for _, table := range []Table{loops(), growth()} {
		for _, c := range table.cells {
			if table.report.Name == "driver-growth" && !grows(c.At) {
				continue
			}
			t.Run(c.Name, func(t *testing.T) { runLoop(t, loopAt(c.At)) })
		}
	}
}

// grows picks what differs most from the base.
func grows(at report.Coordinates) bool {
	return at.Burst == 1 || at.Queues == 4 || at.Buffers == 4096 || at.Segments == 4 || at.RingSize == 1024
}

// loopAt is the loop with those coordinates.
func loopAt(at report.Coordinates) Loop {
	path := at.Tx + at.Rx
	return Loop{
		Receive: at.Topology == "receive", Packed: at.Ring == "packed", InOrder: at.InOrder,
		Mergeable: path == "mergeable", Standard: path == "standard",
		Burst: at.Burst, RingSize: at.RingSize, Pairs: at.Queues, Buffers: at.Buffers, Segments: at.Segments,
	}
}

func runLoop(t *testing.T, l Loop) {
	a, err := l.open(t.Context(), t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Kill()
	s, err := a.Measure(t.Context(), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if s.Cost <= 0 {
		t.Errorf("%v ns a packet", s.Cost)
	}
}

// TestServe has a loop's driver work against a back end on another goroutine, which
// answers questions meanwhile.
func TestServe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	questions, ask := io.Pipe()
	answers, say := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(socket, 1, questions, say) }()
	said := bufio.NewReader(answers)
	answer := func() string {
		text, err := said.ReadString('>')
		if err != nil {
			t.Fatal(err)
		}
		_, _ = said.ReadByte() // the space behind
		return text
	}
	answer()
	l := Loop{}
	l.setDefaults()
	a := &alone{Loop: l}
	front, err := vhost.Dial(socket, vhost.FrontendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if a.port, err = driver.Open(front, driver.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := a.start(); err != nil {
		t.Fatal(err)
	}
	cache := a.pool.NewCache(0)
	a.use(cache)
	sent := uint64(0)
	for round := l.sender(a.port); sent < 20_000; {
		n, err := round(cache)
		if err != nil {
			t.Fatal(err)
		}
		sent += uint64(n)
		if n == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	// The receive queue was filled once.
	received := uint64(l.RingSize)
	for {
		fmt.Fprintln(ask, "look")
		look, err := parseLook(lookAnswer.FindString(answer()))
		if err != nil {
			t.Fatal(err)
		}
		if look.completed > sent+received {
			t.Fatalf("%d were completed of %d", look.completed, sent+received)
		}
		if look.completed == sent+received {
			if look.first == 0 || look.first > monotonic() || look.idle < 0 {
				t.Errorf("%+v", look)
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	cache.Flush()
	a.Kill()
	ask.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A front end that ends is what went wrong, not that no packets move.
func TestFrontEndThatEnds(t *testing.T) {
	const backend = `#!/bin/sh
printf 'testpmd> '; while read line; do echo "completed 0 idle 0 first 0"; printf 'testpmd> '; done`
	dir := t.TempDir()
	w := Where{Vionet: filepath.Join(dir, "vionet")}
	if err := os.WriteFile(w.Vionet, []byte(backend), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := w.start(t.Context(), dir, "vionet", func(Where, string) []string { return []string{"false"} })
	if err == nil || err.Error() != "false ended (exit status 1)" {
		t.Error(err)
	}
}

// Every cell has a name of its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range Tables() {
		for _, name := range table.Names() {
			if seen[name] {
				t.Errorf("two cells are called %s", name)
			}
			seen[name] = true
		}
	}
	if len(seen) < 50 {
		t.Errorf("%d cells", len(seen))
	}
}
