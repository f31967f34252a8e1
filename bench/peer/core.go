package peer

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnCore keeps the goroutine on a core until the function that it gives is called. With
// an error it is where it was, and there is no function.
func OnCore(core int) (leave func(), err error) {
	runtime.LockOSThread()
	var before, set unix.CPUSet
	set.Set(core)
	if err = unix.SchedGetaffinity(0, &before); err == nil {
		err = unix.SchedSetaffinity(0, &set)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("go to processor %d: %w", core, err)
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &before) // where it was allowed to be
		runtime.UnlockOSThread()
	}, nil
}
