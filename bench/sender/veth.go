package sender

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/bench/frames"
)

// Interface is the sender's end of the veth pair; its TX packets are the frames
// that reached the other end.
const Interface = "send0"

// The other end, and the processors that work for it: the first, where the host
// is in the benchmarks that have one.
const (
	drain    = "drain0"
	drainCPU = "1"
)

// layVeth makes the pair. Its other end drops what it receives as early as the
// kernel can, since the frames are for another station, and does so on a
// processor that is not the sender's.
func layVeth() error {
	batch := fmt.Sprintf(`link add %[1]s type veth peer name %[2]s
addr add %[3]v dev %[1]s
link set %[1]s up
link set %[2]s up
neigh add %[4]v lladdr %[5]v dev %[1]s
`, Interface, drain, frames.Source, frames.Destination(0), frames.Nobody)
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a veth pair: %w: %s", err, out)
	}
	if err := seeOwnDevices(); err != nil {
		return err
	}
	return os.WriteFile("/sys/class/net/"+drain+"/queues/rx-0/rps_cpus", []byte(drainCPU), 0)
}

// seeOwnDevices mounts a /sys that shows the devices of this network namespace,
// for this process alone.
func seeOwnDevices() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	return nil
}
