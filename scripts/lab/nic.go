package lab

import (
	"fmt"
	"strings"
)

// NIC is one virtio-net function of a guest. The guest finds the
// functions of Config.NICs at 0000:00:01.0, 0000:00:02.0 and so on.
type NIC struct {
	// Net is what the function is plugged into.
	Net Net
	// MAC is the address; "" gives 52:54:00:00:00:01 to the first function,
	// …:02 to the second, and so on.
	MAC string
	// Options are properties of QEMU's virtio-net-pci as key=value, such as
	// mrg_rxbuf=off, packed=on, host_mtu=9000. They add to the defaults and
	// win over them: disable-legacy=on; mq=on with several queues;
	// iommu_platform=on where there is an IOMMU, but not with vhost-user, so
	// such a function wants physical addresses.
	//
	// QEMU 7.2 crashes, without KVM, when Linux's own driver uses the MSI-X
	// vectors of the queues of a vhost-user function; vectors=0 leaves it
	// INTx. Polling drivers behind vfio-pci do not meet this.
	Options []string
}

// Net is the host side of a function: made by Hub, TapNet, VhostUser or
// Datagram.
type Net struct {
	kind    string // QEMU's netdev type
	options string // and its options
	chardev string // the character device below it, "" for none
	queues  int    // queue pairs, 0 counts as 1
}

// Hub is a port of a hub inside QEMU: each frame goes to all other ports with
// the same number. With a single port nothing drains it.
func Hub(number int) Net {
	return Net{kind: "hubport", options: fmt.Sprintf("hubid=%d", number)}
}

// TapNet is a tap device that exists already, see Namespace.Cable, which
// makes one; queues is the number that it was made with.
func TapNet(name string, queues int) Net {
	options := "ifname=" + name + ",script=no,downscript=no,vhost=off"
	if queues > 1 {
		options += fmt.Sprintf(",queues=%d", queues)
	}
	return Net{kind: "tap", options: options, queues: queues}
}

// VhostUser is a back end that listens on a Unix socket, which must exist
// when the guest starts.
func VhostUser(socket string, queues int) Net {
	options := ""
	if queues > 1 {
		options = fmt.Sprintf("queues=%d", queues)
	}
	return Net{kind: "vhost-user", options: options, chardev: "socket,path=" + socket, queues: queues}
}

// VhostUserServer is a socket on which QEMU listens for the back end. QEMU
// waits with the boot for the first connection, but the back end may leave and
// come back later.
func VhostUserServer(socket string, queues int) Net {
	n := VhostUser(socket, queues)
	n.chardev += ",server=on,wait=off"
	return n
}

// Datagram is a pair of Unix datagram sockets, one frame a datagram: QEMU
// receives on local and sends to remote. See NewCable.
func Datagram(local, remote string) Net {
	return Net{kind: "dgram", options: fmt.Sprintf(
		"local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", local, remote)}
}

// shared reports whether the back end maps the guest's memory.
func (n Net) shared() bool { return n.kind == "vhost-user" }

// args are QEMU's arguments for function number i; iommu says whether the
// machine has an IOMMU.
func (n NIC) args(i int, iommu bool) []string {
	id := fmt.Sprintf("n%d", i)
	netdev := []string{n.Net.kind, "id=" + id}
	var argv []string
	if n.Net.chardev != "" {
		backend, rest, _ := strings.Cut(n.Net.chardev, ",")
		argv = append(argv, "-chardev", backend+",id=c"+id+","+rest)
		netdev = append(netdev, "chardev=c"+id)
	}
	if n.Net.options != "" {
		netdev = append(netdev, n.Net.options)
	}
	return append(argv,
		"-netdev", strings.Join(netdev, ","),
		"-device", strings.Join(n.device(i, id, iommu), ","))
}

// device lists the function's properties, the caller's in place of defaults
// with the same key.
func (n NIC) device(i int, id string, iommu bool) []string {
	mac := n.MAC
	if mac == "" {
		mac = fmt.Sprintf("52:54:00:00:00:%02x", i+1)
	}
	defaults := []string{"mac=" + mac, "disable-legacy=on"}
	if iommu && !n.Net.shared() { // a vhost-user back end seldom has an IOTLB
		defaults = append(defaults, "iommu_platform=on")
	}
	if n.Net.queues > 1 { // a vector for each queue, for configuration and for control
		defaults = append(defaults, "mq=on", fmt.Sprintf("vectors=%d", 2*n.Net.queues+2))
	}
	properties := []string{"virtio-net-pci", "netdev=" + id}
	for _, option := range defaults {
		if key, _, _ := strings.Cut(option, "="); !hasKey(n.Options, key) {
			properties = append(properties, option)
		}
	}
	return append(properties, n.Options...)
}

// hasKey reports whether one of the key=value options has the key.
func hasKey(options []string, key string) bool {
	for _, option := range options {
		if k, _, _ := strings.Cut(option, "="); k == key {
			return true
		}
	}
	return false
}
