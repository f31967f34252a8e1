package vhost

import (
	"fmt"
	"io/fs"
	"strconv"

	"vionet/virtio"
)

// PortDevargs are the arguments that ParsePortDevargs knows, for messages.
const PortDevargs = "iface=, queues=, client=, tso=, packed=, mrg_rxbuf=, event_idx=, dequeue-zero-copy=, iommu-support=, mtu=, socket-mode="

// ParsePortDevargs takes the arguments of a --vdev net_vhost out of args and
// gives the configuration for NewPort. Those that it does not know stay in args,
// for the caller to refuse.
//
//	iface=              the socket; must be given
//	queues=             queue pairs, 1
//	client=             1: connect to a front end that listens, 0
//	tso=                1: offer segmentation, 0
//	packed=             0: do without packed virtqueues, 1
//	mrg_rxbuf=          0: do without mergeable receive buffers, 1
//	event_idx=          0: do without notification by index, 1
//	dequeue-zero-copy=  1: leave frames in the guest's memory until they are freed, where
//	                    it is sealed; 2: trust the guest not to take it away; 0
//	iommu-support=      1: offer to work behind the guest's IOMMU, 0
//	mtu=                the MTU in bytes that the guest shall use; without it any
//	socket-mode=        who may connect to the socket, 0600
func ParsePortDevargs(name string, args map[string]string) (PortConfig, error) {
	cfg := PortConfig{Name: name}
	var err error
	number := func(key string, otherwise, low, high int) int {
		text, ok := args[key]
		if !ok {
			return otherwise
		}
		delete(args, key)
		n, convErr := strconv.Atoi(text)
		if err == nil && (convErr != nil || n < low || n > high) {
			err = fmt.Errorf("vhost: %s: %s=%s: must be a number from %d to %d", name, key, text, low, high)
		}
		return n
	}
	cfg.Path = args["iface"]
	delete(args, "iface")
	cfg.Queues = number("queues", 1, 1, maxPairs)
	cfg.Client = number("client", 0, 0, 1) == 1
	cfg.TSO = number("tso", 0, 0, 1) == 1
	zeroCopy := number("dequeue-zero-copy", 0, 0, 2)
	cfg.ZeroCopy, cfg.TrustGuest = zeroCopy > 0, zeroCopy > 1
	cfg.Packed = number("packed", 1, 0, 1) == 1
	cfg.IOMMU = number("iommu-support", 0, 0, 1) == 1
	if number("mrg_rxbuf", 1, 0, 1) == 0 {
		cfg.Mask |= virtio.NetMrgRxbuf
	}
	if number("event_idx", 1, 0, 1) == 0 {
		cfg.Mask |= virtio.EventIdx
	}
	if _, given := args["mtu"]; given {
		cfg.MTU = number("mtu", 0, virtio.MinMTU, portMaxMTU)
	}
	if text, given := args["socket-mode"]; given {
		delete(args, "socket-mode")
		mode, convErr := strconv.ParseUint(text, 8, 32)
		if err == nil && (convErr != nil || mode < 1 || mode > 0o777) {
			err = fmt.Errorf("vhost: %s: socket-mode=%s: must be an octal number from 1 to 777", name, text)
		}
		cfg.SocketMode = fs.FileMode(mode)
	}
	switch {
	case err != nil:
		return PortConfig{}, err
	case cfg.Path == "":
		return PortConfig{}, fmt.Errorf("vhost: %s: no iface= of a vhost-user socket", name)
	}
	return cfg, nil
}
