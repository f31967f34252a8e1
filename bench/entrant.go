package bench

import (
	"fmt"

	"vionet/bench/peer"
	"vionet/bench/report"
)

// entrant is a contestant before it is started: who plays the two ends, over which
// rings. All of it is decided by command lines.
type entrant struct {
	name        string // in the report
	host, guest peer.End
	// at has no more than what the rings and the offloads are.
	at    report.Coordinates
	ports int // of the guest
}

// bound is the part of a cell's coordinates that is decided when processes start.
func bound(at report.Coordinates) report.Coordinates {
	at.Topology, at.Size, at.Burst = "", 0, 0
	return at
}

// hostCommand is the command line of the host. Wires are the sizes of its null ports.
func (e entrant) hostCommand(vionet, dir, name string, core int, wires []int) []string {
	argv := e.host.Command(vionet, "h"+name, core)
	for i := range e.ports {
		argv = append(argv, "--vdev", fmt.Sprintf("net_vhost%d,iface=%s,queues=%d%s", i, peer.Socket(dir, name, i), e.at.Queues, e.host.Devargs))
	}
	for i, size := range wires {
		argv = append(argv, "--vdev", fmt.Sprintf("net_null%d,size=%d", i, size))
	}
	return append(argv, append([]string{"--", "-i", "--no-lsc-interrupt"}, e.appArguments()...)...)
}

// dpdkLog has DPDK's front end tell which paths it chose.
const dpdkLog = "--log-level=pmd.net.virtio.*:info"

// guestCommand is the command line of the guest.
func (e entrant) guestCommand(vionet, dir, name string, core int) []string {
	argv := e.guest.Command(vionet, "g"+name, core)
	if !e.guest.Vionet {
		argv = append(argv, dpdkLog)
		if e.at.Vector {
			argv = append(argv, "--force-max-simd-bitwidth=512")
		}
	}
	for i := range e.ports {
		argv = append(argv, "--vdev", fmt.Sprintf("net_virtio_user%d,path=%s,%s", i, peer.Socket(dir, name, i), e.devargs()))
	}
	return append(append(append(argv, "--", "-i"), e.appArguments()...), e.offloads()...)
}

// devargs are the arguments of the front ends' virtual devices.
func (e entrant) devargs() string {
	bit := map[bool]int{true: 1}
	args := fmt.Sprintf("queues=%d,queue_size=256,mrg_rxbuf=%d,packed_vq=%d,in_order=%d",
		e.at.Queues, bit[e.at.Mergeable], bit[e.at.Ring == "packed"], bit[e.at.InOrder])
	if e.at.Vector && !e.guest.Vionet {
		args += ",vectorized=1"
	}
	return args + e.guest.Devargs
}

// offloads are the guest's: the checksum of TCP, as the published series asked for.
func (e entrant) offloads() (flags []string) {
	const tcpChecksum = 0x8 // in both directions
	if e.at.Tx == standardTx {
		flags = append(flags, fmt.Sprintf("--tx-offloads=%#x", tcpChecksum))
	}
	if e.at.Offloads {
		flags = append(flags, fmt.Sprintf("--rx-offloads=%#x", tcpChecksum))
	}
	return flags
}

// appArguments are those that both ends take.
func (e entrant) appArguments() []string {
	return []string{"--total-num-mbufs=16384", fmt.Sprintf("--rxq=%d", e.at.Queues), fmt.Sprintf("--txq=%d", e.at.Queues)}
}

// processes is how many an entrant has, all of which take their memory from the
// hugepages.
const processes = 2
