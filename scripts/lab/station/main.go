// Command station is the program of a guest that leaves its function to Linux's
// own driver: a station on an IPv4 network that obeys its console.
//
//	station PREFIX
//
// It gives eth0 the address, serves bulk transfers, says "station is up" and
// then reads commands, a line each. Each is answered by a line that begins with
// "ok" or "failed".
//
//	ping ADDRESS SIZE COUNT   echo requests of that size that are not fragmented
//	push ADDRESS SIZE         send that many bytes to another station
//	pull ADDRESS SIZE         receive them
//	neighbour ADDRESS         what ARP knows
//	mtu                       of eth0
//	features                  that the driver has negotiated, as a number
//	reboot                    as the command of that name: the kernel shuts its devices down
//	restart                   at once, with nothing put in order
package main

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/scripts/lab/inet"
)

const ifname = "eth0"

func main() {
	if err := run(); err != nil {
		fmt.Println("station:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: station PREFIX")
	}
	prefix, err := netip.ParsePrefix(os.Args[1])
	if err != nil {
		return err
	}
	if err := inet.Configure(ifname, prefix); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", fmt.Sprintf(":%d", inet.BulkPort))
	if err != nil {
		return err
	}
	go inet.Serve(l)
	fmt.Println("station is up")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := obey(strings.Fields(lines.Text()))
		if err != nil {
			fmt.Println("failed", err)
			continue
		}
		fmt.Println("ok", answer)
	}
	return lines.Err()
}

// obey does what one line says.
func obey(words []string) (answer string, err error) {
	var verb string
	var addr netip.Addr
	var numbers [2]int
	for i, word := range words {
		switch i {
		case 0:
			verb = word
		case 1:
			addr, err = netip.ParseAddr(word)
		default:
			numbers[min(i, 3)-2], err = strconv.Atoi(word)
		}
		if err != nil {
			return "", err
		}
	}
	switch verb {
	case "ping":
		n, err := inet.Ping(addr, numbers[0], numbers[1])
		return strconv.Itoa(n), err
	case "push":
		return "", inet.Push(addr, int64(numbers[0]))
	case "pull":
		return "", inet.Pull(addr, int64(numbers[0]))
	case "neighbour":
		mac, err := inet.Neighbour(addr)
		return mac.String(), err
	case "mtu":
		text, err := os.ReadFile("/sys/class/net/" + ifname + "/mtu")
		return strings.TrimSpace(string(text)), err
	case "features":
		return features()
	case "reboot":
		return "", unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	case "restart":
		return "", os.WriteFile("/proc/sysrq-trigger", []byte("b"), 0)
	}
	return "", fmt.Errorf("no such command: %q", verb)
}

// features reads the bits that sysfs lists from the lowest on.
func features() (string, error) {
	text, err := os.ReadFile("/sys/class/net/" + ifname + "/device/features")
	if err != nil {
		return "", err
	}
	var bits uint64
	for i, c := range strings.TrimSpace(string(text)) {
		if c == '1' {
			bits |= 1 << i
		}
	}
	return fmt.Sprintf("%#x", bits), nil
}
