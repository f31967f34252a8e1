package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// socket is where port i of a host listens.
func socket(dir, name string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%d.sock", name, i))
}

// hostCommand starts the host of a contestant, on core 0.
func (c contest) hostCommand(dir string, who rival) []string {
	argv := who.host.command(c.vionet, "h"+who.name, 0)
	for i := range c.ports {
		argv = append(argv, "--vdev", fmt.Sprintf("net_vhost%d,iface=%s,queues=%d%s", i, socket(dir, who.name, i), c.pairs, who.host.devargs))
	}
	if c.wire {
		argv = append(argv, "--vdev", fmt.Sprintf("net_null0,size=%d", c.size))
	}
	return append(append(argv, "--", "-i", "--forward-mode="+c.hostMode, "--no-lsc-interrupt"), c.appArguments()...)
}

// guestCommand starts the guest of a contestant, on core 1.
func (c contest) guestCommand(dir string, who rival) []string {
	argv := who.guest.command(c.vionet, "g"+who.name, 1)
	if who.mergeable != nil {
		c.mergeable = *who.mergeable
	}
	for i := range c.ports {
		argv = append(argv, "--vdev", fmt.Sprintf("net_virtio_user%d,path=%s,%s", i, socket(dir, who.name, i), c.devargs()))
	}
	return append(append(argv, "--", "--forward-mode="+c.guestMode), c.appArguments()...)
}

// command begins the command line of a testpmd that does all its work on one
// core: two lcores share it, of which the main one only reads the console. Name
// tells DPDK's processes apart.
func (e end) command(vionet, name string, core int) []string {
	argv := []string{"taskset", "-c", strconv.Itoa(core)}
	if e.vionet {
		argv = append(argv, vionet, "testpmd")
	} else {
		argv = append(argv, "dpdk-testpmd", "--file-prefix", fmt.Sprintf("%s%d", name, os.Getpid()), "--in-memory", "--single-file-segments", "--no-telemetry")
	}
	return append(argv, "--lcores", fmt.Sprintf("0@%d,1@%[1]d", core), "--no-pci", "-m", "128")
}

// appArguments are those that both ends take.
func (c contest) appArguments() []string {
	return []string{"--total-num-mbufs=16384", fmt.Sprintf("--txpkts=%d", c.size),
		fmt.Sprintf("--rxq=%d", c.pairs), fmt.Sprintf("--txq=%d", c.pairs)}
}
