package peer

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"vionet/bench/turns"
)

// A window is disturbed when a busy process had less than 95 % of its processor.
func TestDisturbance(t *testing.T) {
	g := &Group{Busy: []*Process{{Program: "host"}, {Program: "guest"}}}
	begin := time.Now()
	before := reading{busy: []time.Duration{time.Second, 2 * time.Second}, at: begin}
	for _, c := range []struct {
		host, guest time.Duration
		want        string
	}{
		{100 * time.Millisecond, 96 * time.Millisecond, ""},
		{100 * time.Millisecond, 94 * time.Millisecond, "guest had 94 % of its processor"},
		{10 * time.Millisecond, 100 * time.Millisecond, "host had 10 % of its processor"},
	} {
		after := reading{busy: []time.Duration{time.Second + c.host, 2*time.Second + c.guest}, at: begin.Add(100 * time.Millisecond)}
		err := g.disturbance(before, after)
		if c.want == "" {
			if err != nil {
				t.Errorf("%v and %v: %v", c.host, c.guest, err)
			}
			continue
		}
		if by := (*turns.Disturbed)(nil); !errors.As(err, &by) || !strings.Contains(by.By, c.want) {
			t.Errorf("%v and %v: %v, want %s", c.host, c.guest, err, c.want)
		}
	}
}

// A process that has ended says so, with its last words of either stream, and no
// further ones.
func TestLastWords(t *testing.T) {
	p, err := Start(t.Context(), t.TempDir()+"/log", 0, []string{"sh", "-c", "echo out; echo complaint >&2; seq 1000 >&2; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done
	words := p.Alive().Error()
	first, rest, _ := strings.Cut(words, "\n")
	if first != "sh ended (exit status 3)" {
		t.Errorf("the first line is %q", first)
	}
	if !strings.Contains(rest, "out") || !strings.HasSuffix(strings.TrimSuffix(rest, "\nout"), "1000") || strings.Contains(rest, "complaint") {
		t.Errorf("last words: %s", rest)
	}
}

// A console is told one line after the other, and an answer is told apart from what
// comes before.
func TestConsole(t *testing.T) {
	const script = `printf 'testpmd> '; while read line; do echo "RX-packets: 7"; echo "said $line"; echo ` +
		`'############################################################################'; printf 'testpmd> '; done`
	p, err := Start(t.Context(), t.TempDir()+"/log", 0, []string{"sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	defer (&Group{Processes: []*Process{p}}).Kill()
	if err := p.Ready(); err != nil {
		t.Fatal(err)
	}
	if err := p.Do("one", "two"); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Counter(0, "RX-packets")(); n != 7 || err != nil {
		t.Errorf("counter %d, %v", n, err)
	}
	if said, err := p.Ask("three", regexp.MustCompile(`said (.*)\n`)); said != "three" || err != nil {
		t.Errorf("answer %q, %v", said, err)
	}
}
