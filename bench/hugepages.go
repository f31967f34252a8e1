package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// hugepages is how many pages of 2 MiB the four processes need: 128 MiB for
// each of the three DPDK ones, and as much for vionet.
const hugepages = 4*64 + 16

const hugepagesFile = "/proc/sys/vm/nr_hugepages"

// reserveHugepages raises the number of hugepages to at least want.
func reserveHugepages(want int) error {
	b, err := os.ReadFile(hugepagesFile)
	if err != nil {
		return err
	}
	have, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return fmt.Errorf("%s: %w", hugepagesFile, err)
	}
	if have >= want {
		return nil
	}
	if err := os.WriteFile(hugepagesFile, []byte(strconv.Itoa(want)), 0o644); err != nil {
		return fmt.Errorf("%w: %d hugepages are needed: run as root", err, want)
	}
	return nil
}
