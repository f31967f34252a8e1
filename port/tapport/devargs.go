package tapport

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"vionet/port"
)

// ParseDevargs reads the arguments of a port and takes those that it knows out
// of args:
//
//	iface=  the name of the kernel's interface, at most 15 characters; %d in it
//	        becomes the first number that is free; dtap%d
//	mac=    its MAC address; "fixed": 00:64:74:61:70 and the number in the
//	        port's name; without it the kernel makes one up
//
// Config.Devargs is left to the caller.
func ParseDevargs(name string, args map[string]string) (Config, error) {
	cfg := Config{Name: name}
	if iface, given := args["iface"]; given {
		if err := checkName(iface); err != nil {
			return Config{}, fmt.Errorf("port: %s: %w", name, err)
		}
		cfg.Interface = iface
		delete(args, "iface")
	}
	if text, given := args["mac"]; given {
		mac, err := parseMAC(name, text)
		if err != nil {
			return Config{}, fmt.Errorf("port: %s: %w", name, err)
		}
		cfg.MAC = mac
		delete(args, "mac")
	}
	return cfg, nil
}

func parseMAC(name, text string) (net.HardwareAddr, error) {
	if text == "fixed" {
		digits := name[len(strings.TrimRight(name, "0123456789")):]
		n, _ := strconv.ParseUint(digits, 10, 8)
		return net.HardwareAddr{0, 'd', 't', 'a', 'p', byte(n)}, nil
	}
	mac, err := net.ParseMAC(text)
	if err != nil {
		return nil, fmt.Errorf("mac=%s: %w: must be fixed or six bytes such as 52:54:00:12:34:56", text, port.ErrInvalid)
	}
	return mac, checkMAC(mac)
}

// checkMAC refuses what is no station's address.
func checkMAC(mac net.HardwareAddr) error {
	if len(mac) != 6 || mac[0]&1 != 0 || [6]byte(mac) == [6]byte{} {
		return fmt.Errorf("MAC address %v: %w: must be six bytes, not all 0, and no multicast address", mac, port.ErrInvalid)
	}
	return nil
}
