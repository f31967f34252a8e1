package peer

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A goroutine is on its core alone, and afterwards where it was before; one that can't
// get there is told so.
func TestOnCore(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	allowed := func() (set unix.CPUSet) {
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		return set
	}
	before := allowed()
	core := 0
	for !before.IsSet(core) {
		core++
	}
	leave, err := OnCore(core)
	if err != nil {
		t.Fatal(err)
	}
	if there := allowed(); there.Count() != 1 || !there.IsSet(core) {
		t.Errorf("on processor %d, and on %d in all", core, there.Count())
	}
	leave()
	if allowed() != before {
		t.Error("it did not come back")
	}
	const none = 1023 // the last that the kernel's set has room for
	if _, err := OnCore(none); err == nil {
		t.Errorf("there is a processor %d", none)
	}
	if allowed() != before {
		t.Error("an error left it elsewhere")
	}
}
