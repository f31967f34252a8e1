package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// DPDK is a run of DPDK's dpdk-testpmd on this host, with its console open.
type DPDK struct {
	// Vdevs are its virtual devices, which become ports 0, 1, … :
	//
	//	net_vhost0,iface=SOCKET,queues=1,tso=1   a vhost-user back end
	//	net_virtio_user0,path=SOCKET             a front end
	//	net_pcap0,rx_pcap=IN,tx_pcap=OUT         files
	Vdevs []string
	// Arguments are testpmd's own, those after "--", such as
	// --forward-mode=rxonly or --auto-start.
	Arguments []string
	// CPU is the processor that forwards packets, 0 or higher; the console is
	// on processor 0.
	CPU int
	// Memory is the size of its packet memory in MiB; default 256.
	Memory int
	// Hugepages puts that memory on hugepages of 2 MiB, whose number is
	// raised when too few are free; needs root. Plain pages otherwise.
	Hugepages bool
	// Mirror gets a copy of all that it says.
	Mirror io.Writer
}

// instances tells the runs of one test process apart.
var instances atomic.Int64

// StartDPDK starts dpdk-testpmd and waits until its console listens. The
// caller must Close it, or Quit and Close.
func StartDPDK(ctx context.Context, cfg DPDK) (*Process, error) {
	if cfg.Memory == 0 {
		cfg.Memory = 256
	}
	if cfg.Hugepages {
		if err := needHugepages(cfg.Memory / 2); err != nil {
			return nil, err
		}
	}
	p, err := Run(ctx, cfg.Mirror, nil, cfg.argv()...)
	if err != nil {
		return nil, err
	}
	if _, err := p.Expect(ctx, Prompt); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// argv is the whole command line.
func (cfg DPDK) argv() []string {
	cpu := min(cfg.CPU, runtime.NumCPU()-1)
	argv := []string{
		"dpdk-testpmd",
		"--lcores", fmt.Sprintf("0@0,1@%d", cpu),
		"-m", strconv.Itoa(cfg.Memory),
		"--no-pci", "--no-telemetry",
		"--file-prefix", fmt.Sprintf("vionet-%d-%d", os.Getpid(), instances.Add(1)),
	}
	if cfg.Hugepages {
		argv = append(argv, "--in-memory")
	} else {
		argv = append(argv, "--no-huge", "--no-shconf")
	}
	for _, vdev := range cfg.Vdevs {
		argv = append(argv, "--vdev", vdev)
	}
	argv = append(argv, "--", "-i", "--total-num-mbufs=8192")
	return append(argv, cfg.Arguments...)
}

// needHugepages makes sure that n hugepages of 2 MiB are free. It only ever
// raises their number: others may count on them.
func needHugepages(n int) error {
	const dir = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
	free, err := readNumber(dir + "free_hugepages")
	if err != nil || free >= n {
		return err
	}
	total, err := readNumber(dir + "nr_hugepages")
	if err != nil {
		return err
	}
	want := total + n - free
	if err := os.WriteFile(dir+"nr_hugepages", []byte(strconv.Itoa(want)), 0); err != nil {
		return fmt.Errorf("raise the number of hugepages to %d: %w", want, err)
	}
	if free, err = readNumber(dir + "free_hugepages"); err == nil && free < n {
		err = fmt.Errorf("%d hugepages of 2 MiB are free, %d are needed: memory is short or in pieces", free, n)
	}
	return err
}

// readNumber reads a file that holds one number.
func readNumber(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
