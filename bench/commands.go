package bench

import (
	"fmt"
	"vionet/bench/peer"
)

// hostCommand starts the host of a contestant, on core 0.
func (c contest) hostCommand(dir string, who rival) []string {
	argv := who.host.Command(c.vionet, "h"+who.name, 0)
	for i := range c.ports {
		argv = append(argv, "--vdev", fmt.Sprintf("net_vhost%d,iface=%s,queues=%d%s", i, peer.Socket(dir, who.name, i), c.pairs, who.host.Devargs))
	}
	if c.wire {
		argv = append(argv, "--vdev", fmt.Sprintf("net_null0,size=%d", c.size))
	}
	return append(append(argv, "--", "-i", "--forward-mode="+c.hostMode, "--no-lsc-interrupt"), c.appArguments()...)
}

// guestCommand starts the guest of a contestant, on core 1.
func (c contest) guestCommand(dir string, who rival) []string {
	argv := who.guest.Command(c.vionet, "g"+who.name, 1)
	if who.mergeable != nil {
		c.mergeable = *who.mergeable
	}
	for i := range c.ports {
		argv = append(argv, "--vdev", fmt.Sprintf("net_virtio_user%d,path=%s,%s", i, peer.Socket(dir, who.name, i), c.devargs()))
	}
	return append(append(argv, "--", "--forward-mode="+c.guestMode), c.appArguments()...)
}

// appArguments are those that both ends take.
func (c contest) appArguments() []string {
	return []string{"--total-num-mbufs=16384", fmt.Sprintf("--txpkts=%d", c.size),
		fmt.Sprintf("--rxq=%d", c.pairs), fmt.Sprintf("--txq=%d", c.pairs)}
}
