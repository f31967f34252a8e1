package port

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

func TestEventFD(t *testing.T) {
	e, err := NewEventFD()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait without a signal: %v", err)
	}
	// Signals before and during a Wait both wake it, once.
	for range 3 {
		if err := e.Signal(); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- e.Wait(t.Context()) }()
	if err := e.Signal(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	go func() { done <- e.Wait(t.Context()) }()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("Wait while closing: %v, want ErrClosed", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := e.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait after Close: %v, want ErrClosed", err)
	}
	if err := e.Signal(); !errors.Is(err, ErrClosed) {
		t.Errorf("Signal after Close: %v, want ErrClosed", err)
	}
	if fd := e.FD(); fd != -1 {
		t.Errorf("FD after Close: %d", fd)
	}
}

// TestEventFDWakesNobodyElse keeps the descriptor from Go's poller until somebody
// waits in it.
func TestEventFDWakesNobodyElse(t *testing.T) {
	e, err := NewEventFD()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Signal(); err != nil {
		t.Fatal(err)
	}
	if n := epollsOn(t, e.FD()); n != 0 {
		t.Errorf("%d epolls look at it before the first Wait", n)
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := epollsOn(t, e.FD()); n != 1 {
		t.Errorf("%d epolls look at it after a Wait, want Go's", n)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// epollsOn counts the process's epoll descriptors that have fd among theirs (proc(5),
// fdinfo).
func epollsOn(t *testing.T, fd int) (n int) {
	t.Helper()
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil || len(infos) == 0 {
		t.Fatalf("no fdinfo: %v", err)
	}
	target := regexp.MustCompile(fmt.Sprintf(`(?m)^tfd:\s+%d\s`, fd))
	for _, path := range infos {
		// A descriptor may be gone by now.
		if text, err := os.ReadFile(path); err == nil && target.Match(text) {
			n++
		}
	}
	return n
}
