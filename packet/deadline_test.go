package packet_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"vionet/packet"
)

// In a bubble time passes only while everybody sleeps, and then at once: a read
// that ends at its deadline ends there to the nanosecond, and one that polled
// would let no time pass at all.
func TestReadDeadline(t *testing.T) {
	for name, at := range map[string]struct {
		deadline time.Duration // before the read
		move     time.Duration // when it is moved
		to       time.Duration // the new one, from the beginning too
		want     time.Duration
	}{
		"kept":                    {time.Second, 0, 0, time.Second},
		"past":                    {-time.Second, 0, 0, 0},
		"now":                     {0, 0, 0, 0},
		"brought forward":         {time.Hour, time.Second, 2 * time.Second, 2 * time.Second},
		"put off":                 {2 * time.Second, time.Second, time.Hour, time.Hour},
		"into the past":           {time.Hour, time.Second, -time.Second, time.Second},
		"at the very last moment": {time.Second, time.Second - 1, time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := silent(t, packet.Config{})
				begin := time.Now()
				c.SetReadDeadline(begin.Add(at.deadline))
				if at.move != 0 {
					time.AfterFunc(at.move, func() { c.SetReadDeadline(begin.Add(at.to)) })
				}
				_, _, err := c.ReadFrom(nil)
				var timeout net.Error
				if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("error %v", err)
				}
				if got := time.Since(begin); got != at.want {
					t.Errorf("the read ended after %v, want %v", got, at.want)
				}
			})
		})
	}
}

// A deadline that has passed stays so, for every read, until it is moved; writes
// have another one.
func TestDeadlineIsEverybodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := silent(t, packet.Config{})
		begin := time.Now()
		errs := make(chan error)
		const readers = 5
		for range readers {
			go func() {
				_, _, err := c.ReadFrom(nil)
				errs <- err
			}()
		}
		synctest.Wait()
		c.SetReadDeadline(begin.Add(time.Minute))
		for range readers {
			if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		}
		if got := time.Since(begin); got != time.Minute {
			t.Errorf("the reads ended after %v, want a minute", got)
		}
		if _, _, err := c.ReadFrom(nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read behind the deadline: %v", err)
		}
		write(t, c, frame(60, ""))
		c.SetDeadline(begin)
		if _, err := c.WriteTo(frame(60, ""), nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write behind the deadline: %v", err)
		}
		c.SetDeadline(time.Time{})
		write(t, c, frame(60, ""))
		time.AfterFunc(time.Hour, func() { c.SetReadDeadline(time.Now()) })
		if _, _, err := c.ReadFrom(nil); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) < time.Hour {
			t.Errorf("a read without a deadline ended after %v: %v", time.Since(begin), err)
		}
	})
}

// Close ends the reads that wait, and every later call with net.ErrClosed.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := silent(t, packet.Config{})
		errs := make(chan error)
		for range 2 {
			go func() {
				_, _, err := c.ReadFrom(nil)
				errs <- err
			}()
		}
		synctest.Wait()
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, net.ErrClosed) {
				t.Errorf("a read that waited: %v", err)
			}
		}
		_, _, read := c.ReadFrom(nil)
		_, readBatch := c.ReadBatch(make([]packet.Message, 1), 0)
		_, write := c.WriteTo(frame(60, ""), nil)
		_, writeBatch := c.WriteBatch(make([]packet.Message, 1), 0)
		_, raw := c.SyscallConn()
		for name, err := range map[string]error{
			"ReadFrom": read, "ReadBatch": readBatch, "WriteTo": write, "WriteBatch": writeBatch,
			"SyscallConn": raw, "SetBPF": c.SetBPF(nil), "SetDeadline": c.SetDeadline(time.Now()),
		} {
			var op *net.OpError
			if !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) {
				t.Errorf("%s on a closed Conn: %v", name, err)
			}
		}
		if c.LocalAddr().String() == "" {
			t.Error("a closed Conn has forgotten its address")
		}
	})
}
