package testpmd_test

import (
	"strings"
	"syscall"
	"testing"

	"vionet/scripts/lab"
)

// On a terminal the Enter key ends a watch, and so does Ctrl-C, which leaves the
// console to go on.
func TestWatchOnATerminal(t *testing.T) {
	bin, err := lab.Build(t.Context(), t.TempDir(), "./cmd/vionet")
	if err != nil {
		t.Fatal(err)
	}
	p := lab.Spawn(t, bin, "testpmd", "--no-pci", "--vdev", "net_null0", "--", "-i")
	expect := func(text string) string {
		t.Helper()
		said, err := p.Expect(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	send := func(line string) {
		t.Helper()
		if err := p.Send(line); err != nil {
			t.Fatal(err)
		}
	}
	const shown = "List of forwarding lcores:"
	const clear = "\x1b[2J\x1b[1;1H"
	expect(lab.Prompt)

	send("watch 0.2 show config cores")
	for range 3 {
		if said := expect(shown); !strings.Contains(said, clear) {
			t.Errorf("not drawn in place: %q", said)
		}
	}
	send("")
	expect(lab.Prompt)
	send("show config txpkts")
	if said := expect(lab.Prompt); !strings.Contains(said, "Number of segments: 1") {
		t.Errorf("the console does not go on: %q", said)
	}

	send("watch 0.2 show config cores")
	expect(shown)
	expect(shown)
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	expect(lab.Prompt)

	// A line that was typed meanwhile ends it too, and is run.
	send("watch 0.2 show config cores")
	expect(shown)
	send("show config txpkts")
	expect(lab.Prompt)
	if said := expect(lab.Prompt); !strings.Contains(said, "Number of segments: 1") {
		t.Errorf("the line is lost: %q", said)
	}
	send("quit")
	if _, err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
