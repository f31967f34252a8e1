package packet

import (
	"context"
	"os"
	"sync"
	"time"
)

// lane is one direction of a Conn: callers take turns in it, and none waits
// beyond the deadline.
type lane struct {
	turn chan struct{}   // full while somebody has the turn
	conn context.Context // done when the Conn is

	mu    sync.Mutex
	ctx   context.Context // done when the Conn is, or the deadline has passed
	cut   context.CancelCauseFunc
	timer *time.Timer
}

func newLane(conn context.Context) *lane {
	l := &lane{turn: make(chan struct{}, 1), conn: conn}
	l.ctx, l.cut = context.WithCancelCause(conn)
	return l
}

// enter waits for the turn, and gives the context for what is done in it. The
// error is os.ErrDeadlineExceeded or why the Conn has ended.
func (l *lane) enter() (context.Context, error) {
	l.mu.Lock()
	ctx := l.ctx
	l.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case l.turn <- struct{}{}:
		return ctx, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *lane) leave() { <-l.turn }

// setDeadline moves the deadline, also that of whoever waits. Those whose
// deadline has passed already keep their error.
func (l *lane) setDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn.Err() != nil {
		return context.Cause(l.conn)
	}
	if l.timer != nil && !l.timer.Stop() {
		<-l.ctx.Done() // the timer is about to
	}
	l.timer = nil
	if l.ctx.Err() != nil {
		l.ctx, l.cut = context.WithCancelCause(l.conn)
	}
	if t.IsZero() {
		return nil
	}
	cut := l.cut
	if wait := time.Until(t); wait > 0 {
		l.timer = time.AfterFunc(wait, func() { cut(os.ErrDeadlineExceeded) })
	} else {
		cut(os.ErrDeadlineExceeded)
	}
	return nil
}

// close waits until nobody is in the lane any more. The Conn's context is done,
// so that nobody enters it either.
func (l *lane) close() {
	l.turn <- struct{}{}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cut(context.Cause(l.conn))
}
