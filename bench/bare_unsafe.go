package bench

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BareThread looks at a clock for a while, and counts how often it could not for more
// than longPause, and for how long at most. It does so by bare system calls, at which
// Go's scheduler has no part: with asynchronous preemption switched off in the
// environment, nothing of the runtime can stop the loop.
func BareThread(d time.Duration) (count int, longest time.Duration) {
	runtime.LockOSThread()
	var ts unix.Timespec
	now := func() time.Duration {
		// The kernel writes to ts, which outlives the call.
		unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0)
		return time.Duration(ts.Nano())
	}
	begin := now()
	for last := begin; last-begin < d; {
		t := now()
		if gap := t - last; gap > longPause {
			count++
			longest = max(longest, gap)
		}
		last = t
	}
	return count, longest
}
