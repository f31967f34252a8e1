package lab

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// script is a console whose program says the given pieces and then ends.
func script(pieces ...string) *Console {
	c := newConsole("script", io.Discard, nil)
	for _, piece := range pieces {
		c.hear([]byte(piece), false)
	}
	c.hear(nil, true)
	return c
}

func TestExpectReadsOnFromTheMark(t *testing.T) {
	c := script("tes", "tpmd> one\r\ntest", "pmd> two\r\n")
	for _, want := range []string{"testpmd> ", "one\ntestpmd> ", "two\n"} {
		got, err := c.Expect(t.Context(), want[len(want)-4:])
		if err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if got, want := c.Transcript(), "testpmd> one\ntestpmd> two\n"; got != want {
		t.Errorf("transcript %q, want %q", got, want)
	}
}

func TestExpectFailsWithTheDialogue(t *testing.T) {
	_, err := script("last words").Expect(t.Context(), Prompt)
	if err == nil || !strings.Contains(err.Error(), "script ended") || !strings.Contains(err.Error(), "last words") {
		t.Errorf("a program that ended: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = newConsole("silent", io.Discard, nil).Expect(ctx, Prompt)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a program that is silent: %v", err)
	}
}

func TestCommandGivesTheAnswerAlone(t *testing.T) {
	for _, c := range []struct{ name, said, want string }{
		{"without echo", "Port 0\ntestpmd> ", "Port 0\n"},
		{"with echo", "show\r\nPort 0\r\ntestpmd> ", "Port 0\n"},
		{"no answer", "testpmd> ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var typed strings.Builder
			console := newConsole("script", &typed, nil)
			console.hear([]byte(c.said), false)
			got, err := console.Command(t.Context(), "show")
			if err != nil || got != c.want || typed.String() != "show\n" {
				t.Errorf("%q after %q, %v; want %q", got, typed.String(), err, c.want)
			}
		})
	}
}

func TestRunTalksToAProgram(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var mirror strings.Builder
	p, err := Run(t.Context(), &mirror, []string{"WORD=testpmd> "}, "sh", "-c",
		`printf "$WORD"; while read -r line; do [ "$line" = quit ] && exit 0; printf '<%s>\n%s' "$line" "$WORD"; done`)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Expect(t.Context(), Prompt); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Command(t.Context(), "port start 0"); got != "<port start 0>\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := p.Quit(t.Context()); err != nil {
		t.Error(err)
	}
	p.Close()
	if got, want := mirror.String(), "testpmd> <port start 0>\ntestpmd> "; got != want {
		t.Errorf("mirror %q, want %q", got, want)
	}
}

func TestWaitTellsHowAProgramEnded(t *testing.T) {
	p := Spawn(t, "sh", "-c", "exit 3")
	if status, err := p.Wait(t.Context()); status != 3 || err != nil {
		t.Errorf("exit 3: %d, %v", status, err)
	}
	p = Spawn(t, "sh", "-c", "echo ready; exec sleep 60")
	if _, err := p.Expect(t.Context(), "ready\n"); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a program that runs: %v", err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("a program that a signal ended: %v", err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal after the end: %v", err)
	}
}

func TestRunNamesAMissingProgram(t *testing.T) {
	if _, err := Run(t.Context(), nil, nil, "/no/such/program"); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("%v", err)
	}
}
