package vhost

import (
	"fmt"
	"net"
	"strconv"

	"vionet/virtio"
)

// ParseDevargs takes the arguments of a --vdev net_virtio_user out of args that
// are about the connection, and gives the socket's path and the configuration
// for Dial. Those that it does not know stay in args, for the caller to use or
// to refuse.
//
//	path=        the back end's socket; must be given
//	queues=      queue pairs, 1
//	queue_size=  descriptors of each queue, 256
//	mac=         the address; without it the driver makes one up
//	mrg_rxbuf=   0: do without mergeable receive buffers, 1
//	in_order=    0: do without in-order use of buffers, 1
//	packed_vq=   1: allow packed virtqueues, 0
//	cq=          1: a control queue, which the front end answers itself, 0
//	mtu=         the MTU in bytes to tell both sides; without it the back end's
//	server=      1: listen, and have the back end connect, 0
func ParseDevargs(name string, args map[string]string) (path string, cfg FrontendConfig, err error) {
	cfg.Name = name
	take := func(key, otherwise string) string {
		value, ok := args[key]
		if !ok {
			return otherwise
		}
		delete(args, key)
		return value
	}
	number := func(key string, otherwise, low, high int) int {
		text := take(key, strconv.Itoa(otherwise))
		n, convErr := strconv.Atoi(text)
		if err == nil && (convErr != nil || n < low || n > high) {
			err = fmt.Errorf("vhost: %s: %s=%s: must be a number from %d to %d", name, key, text, low, high)
		}
		return n
	}
	path = take("path", "")
	cfg.Queues = number("queues", 1, 1, maxPairs)
	cfg.QueueSize = number("queue_size", defaultQueueSize, 1, maxQueueSize)
	if number("mrg_rxbuf", 1, 0, 1) == 0 {
		cfg.Mask |= virtio.NetMrgRxbuf
	}
	if number("in_order", 1, 0, 1) == 0 {
		cfg.Mask |= virtio.InOrder
	}
	if number("packed_vq", 0, 0, 1) == 0 {
		cfg.Mask |= virtio.RingPacked
	}
	if _, given := args["mtu"]; given {
		cfg.MTU = number("mtu", 0, virtio.MinMTU, 65535)
	}
	cfg.Server = number("server", 0, 0, 1) == 1
	cfg.ControlQueue = number("cq", 0, 0, 1) == 1
	mac := take("mac", "")
	switch {
	case err != nil:
		return "", FrontendConfig{}, err
	case path == "":
		return "", FrontendConfig{}, fmt.Errorf("vhost: %s: no path= of a vhost-user socket", name)
	}
	if mac != "" {
		cfg.MAC, err = net.ParseMAC(mac)
		if err != nil || len(cfg.MAC) != 6 || cfg.MAC[0]&1 != 0 {
			return "", FrontendConfig{}, fmt.Errorf("vhost: %s: mac=%s: must be six bytes such as 52:54:00:12:34:56, and no multicast address", name, mac)
		}
	}
	return path, cfg, cfg.check()
}
