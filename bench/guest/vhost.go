package guest

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	"vionet/scripts/lab"
)

// vhost is a testpmd of DPDK's with a back end for each function.
type vhost struct {
	*lab.Process
	dir     string
	counter *regexp.Regexp // of the part that it has now
}

// newVhost starts one whose sockets are in dir.
func newVhost(ctx context.Context, dir string, iommu bool) (*vhost, error) {
	v := &vhost{dir: dir}
	cfg := lab.DPDK{CPU: hostCore, Memory: 128, Hugepages: true, Arguments: []string{"--no-lsc-interrupt", "--disable-link-check"}}
	for i := range 2 {
		vdev := fmt.Sprintf("net_vhost%d,iface=%s", i, v.socket(i))
		if iommu {
			vdev += ",iommu-support=1"
		}
		cfg.Vdevs = append(cfg.Vdevs, vdev)
	}
	p, err := lab.StartDPDK(ctx, cfg)
	if err != nil {
		return nil, err
	}
	v.Process = p
	return v, nil
}

func (v *vhost) socket(i int) string { return filepath.Join(v.dir, fmt.Sprintf("vhost%d.sock", i)) }

func (v *vhost) net(i int) lab.NIC { return lab.NIC{Net: lab.VhostUser(v.socket(i), 1)} }

// parts are the forwarding modes of what a host does, how it starts and what it counts.
var parts = map[part]struct {
	mode, start string
	counter     *regexp.Regexp
}{
	drains: {"rxonly", "start", regexp.MustCompile(`RX-packets:\s+(\d+)`)},
	floods: {"txonly", "start", regexp.MustCompile(`TX-packets:\s+(\d+)`)},
	// 256 frames, as many as a ring has places, go round.
	reflects: {"io", "start tx_first 8", regexp.MustCompile(`RX-packets:\s+(\d+)`)},
}

func (v *vhost) begin(ctx context.Context, i int, p part, size int) error {
	does := parts[p]
	v.counter = does.counter
	return v.commands(ctx, fmt.Sprintf("set portlist %d", i), "set fwd "+does.mode, fmt.Sprintf("set txpkts %d", size), does.start)
}

func (v *vhost) end(ctx context.Context, _ int) error { return v.commands(ctx, "stop") }

func (v *vhost) commands(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		if _, err := v.Command(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

func (v *vhost) count(ctx context.Context, i int) (uint64, error) {
	answer, err := v.Command(ctx, fmt.Sprintf("show port stats %d", i))
	if err != nil {
		return 0, err
	}
	m := v.counter.FindStringSubmatch(answer)
	if m == nil {
		return 0, fmt.Errorf("the host counts nothing:\n%s", answer)
	}
	return strconv.ParseUint(m[1], 10, 64)
}

func (v *vhost) poller() int { return v.Pid() }

func (v *vhost) close() { v.Close() }
