package port

import (
	"context"
	"errors"
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
}
