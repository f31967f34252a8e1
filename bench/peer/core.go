package peer

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnCore keeps the goroutine on a core until the function that it gives is called.
func OnCore(core int) (leave func()) {
	runtime.LockOSThread()
	var before, set unix.CPUSet
	_ = unix.SchedGetaffinity(0, &before)
	set.Set(core)
	_ = unix.SchedSetaffinity(0, &set)
	return func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	}
}
