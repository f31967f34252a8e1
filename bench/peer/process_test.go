package peer

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The clock of a process counts what that process works, and nothing while it
// sleeps.
func TestProcessorTime(t *testing.T) {
	self := &Process{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	took := func(work func()) time.Duration {
		t.Helper()
		before, err := self.CPUTime()
		if err != nil {
			t.Fatal(err)
		}
		work()
		after, err := self.CPUTime()
		if err != nil {
			t.Fatal(err)
		}
		return after - before
	}
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const work = 50 * time.Millisecond
	busy := took(func() {
		for begin := used(); used()-begin < work; {
		}
	})
	if busy < work/2 || busy > 4*work {
		t.Errorf("%v of work were counted as %v", work, busy)
	}
	if idle := took(func() { time.Sleep(4 * work) }); idle > busy {
		t.Errorf("a sleep took %v of the processor", idle)
	}
}
