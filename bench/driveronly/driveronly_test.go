package driveronly

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vionet/bench/report"
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
	l.Socket = filepath.Join(t.TempDir(), "s")
	questions, ask := io.Pipe()
	answers, say := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(l.Socket, l.Pairs, questions, say) }()
	said := bufio.NewReader(answers)
	prompted := func() string {
		text, err := said.ReadString('>')
		if err != nil {
			t.Fatal(err)
		}
		_, _ = said.ReadByte()
		return text
	}
	prompted()
	ctx, cancel := context.WithCancel(t.Context())
	driven := make(chan error, 1)
	go func() { driven <- Drive(ctx, l) }()
	const enough = 20_000
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		fmt.Fprintln(ask, "look")
		look, err := parseLook(lookAnswer.FindString(prompted()))
		if err != nil {
			t.Fatal(err)
		}
		if look.completed > enough && look.first > 0 {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("%d packets in 20 s", look.completed)
		}
		select {
		case err := <-driven:
			t.Fatalf("the loop has ended: %v", err)
		default:
		}
	}
	cancel()
	if err := <-driven; err != nil {
		t.Error(err)
	}
	ask.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// The command line of a loop has what tells it from others.
func TestArguments(t *testing.T) {
	l := Loop{Socket: "s", Receive: true, Packed: true, Burst: 8, Segments: 1}
	got := strings.Join(l.Arguments(), " ")
	const want = "bench driver-frontend --socket s --receive --packed --burst=8 --ring-size=0 --pairs=0 --buffers=0 --segments=1"
	if got != want {
		t.Errorf("%s, want %s", got, want)
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
