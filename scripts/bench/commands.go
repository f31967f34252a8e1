package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// Cores: the hosts run on 0, the guests on 1. Two lcores share a core, of which
// the main one only reads the console.
const (
	hostCores  = "0@0,1@0"
	guestCores = "0@1,1@1"
)

// socket is where port i of a host listens.
func socket(dir, name string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%d.sock", name, i))
}

// hostCommand starts the host of a contestant.
func (c contest) hostCommand(dir string, who contestant) []string {
	argv := c.program(who.host, "h"+who.name, "0", hostCores)
	for i := range c.ports {
		argv = append(argv, "--vdev", fmt.Sprintf("net_vhost%d,iface=%s,queues=%d%s", i, socket(dir, who.name, i), c.pairs, who.host.devargs))
	}
	if c.wire {
		argv = append(argv, "--vdev", fmt.Sprintf("net_null0,size=%d", c.size))
	}
	return append(append(argv, "--", "-i", "--forward-mode="+c.hostMode, "--no-lsc-interrupt"), c.appArguments()...)
}

// guestCommand starts the guest of a contestant.
func (c contest) guestCommand(dir string, who contestant) []string {
	argv := c.program(who.guest, "g"+who.name, "1", guestCores)
	if who.mergeable != nil {
		c.mergeable = *who.mergeable
	}
	for i := range c.ports {
		argv = append(argv, "--vdev", fmt.Sprintf("net_virtio_user%d,path=%s,%s", i, socket(dir, who.name, i), c.devargs()))
	}
	return append(append(argv, "--", "--forward-mode="+c.guestMode), c.appArguments()...)
}

func (c contest) program(e end, name, core, lcores string) []string {
	argv := []string{"taskset", "-c", core}
	if e.vionet {
		argv = append(argv, c.vionet, "testpmd")
	} else {
		argv = append(argv, "dpdk-testpmd", "--file-prefix", fmt.Sprintf("%s%d", name, os.Getpid()), "--in-memory", "--single-file-segments", "--no-telemetry")
	}
	return append(argv, "--lcores", lcores, "--no-pci", "-m", "128")
}

// appArguments are those that both ends take.
func (c contest) appArguments() []string {
	return []string{"--total-num-mbufs=16384", fmt.Sprintf("--txpkts=%d", c.size),
		fmt.Sprintf("--rxq=%d", c.pairs), fmt.Sprintf("--txq=%d", c.pairs)}
}
