package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pin puts the processors of a guest on one core, and QEMU's other threads on another.
func pin(qemu, others, processors int) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", qemu))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			return err
		}
		name, err := os.ReadFile(filepath.Join(task, "comm"))
		if err != nil {
			continue // a thread that has ended
		}
		var set unix.CPUSet
		set.Set(others)
		if strings.HasPrefix(string(name), "CPU ") {
			set.Zero()
			set.Set(processors)
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil {
			return fmt.Errorf("pin %s of QEMU: %w", strings.TrimSpace(string(name)), err)
		}
	}
	return nil
}
