package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// contest runs one cell. Each contestant has a host of its own; all four
// processes stay alive, stopped, and one pair at a time is let run for a
// window. On a shared machine the rates drift by a factor of three from one
// minute to the next; the ratio of two neighbouring windows does not.
type contest struct {
	cell
	vionet  string
	windows int
	window  time.Duration
}

type result struct {
	dpdk, vionet []float64 // packets a second, window by window
	ratios       []float64 // vionet to DPDK, pair by pair
}

// settle is the time that a front end gets to connect and to warm up.
const settle = 2 * time.Second

func (c contest) run(ctx context.Context) (result, error) {
	dir, err := os.MkdirTemp("", "vionet-bench-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	var res result
	var pairs [2]*pair
	for i, name := range []string{"dpdk", "vionet"} {
		p, err := c.startPair(ctx, dir, name)
		if err != nil {
			return result{}, fmt.Errorf("%s: %w", name, err)
		}
		defer p.kill()
		pairs[i] = p
	}
	for i := range c.windows {
		order := []int{0, 1}
		if i%2 == 1 {
			order = []int{1, 0}
		}
		var rate [2]float64
		for _, k := range order {
			if rate[k], err = pairs[k].measure(ctx, c.window); err != nil {
				return res, fmt.Errorf("%s: %w", pairs[k].name, err)
			}
		}
		res.dpdk = append(res.dpdk, rate[0])
		res.vionet = append(res.vionet, rate[1])
		if rate[0] > 0 {
			res.ratios = append(res.ratios, rate[1]/rate[0])
		}
	}
	return res, nil
}

// startPair starts a host and its front end, lets them settle and stops them.
func (c contest) startPair(ctx context.Context, dir, name string) (*pair, error) {
	socket := filepath.Join(dir, name+".sock")
	p := &pair{name: name, counter: c.topology.counter}
	host, err := start(ctx, filepath.Join(dir, name+"-host.log"), c.hostCommand(socket, name))
	if err != nil {
		return nil, err
	}
	p.processes = append(p.processes, host)
	if err := host.waitFor("testpmd> ", 20*time.Second); err != nil {
		p.kill()
		return nil, fmt.Errorf("host: %w", err)
	}
	if err := host.send("start"); err != nil {
		p.kill()
		return nil, err
	}
	front, err := start(ctx, filepath.Join(dir, name+"-front.log"), c.guestCommand(socket, name))
	if err != nil {
		p.kill()
		return nil, err
	}
	p.processes = append(p.processes, front)
	if err := sleep(ctx, settle); err != nil {
		p.kill()
		return nil, err
	}
	if err := front.alive(); err != nil {
		p.kill()
		return nil, fmt.Errorf("front end: %w", err)
	}
	return p, p.pause()
}

// Cores: the hosts run on 0, the front ends on 1. Two lcores share a core, of
// which the main one only reads the console.
func (c contest) hostCommand(socket, name string) []string {
	return append([]string{"dpdk-testpmd", "--lcores", "0@0,1@0", "--no-pci", "--in-memory", "-m", "128",
		"--file-prefix", fmt.Sprintf("h%s%d", name, os.Getpid()), "--no-telemetry",
		"--vdev", fmt.Sprintf("net_vhost0,iface=%s,queues=%d", socket, c.pairs),
		"--", "-i", "--forward-mode=" + c.hostMode, "--no-lsc-interrupt"}, c.appArguments()...)
}

func (c contest) guestCommand(socket, name string) []string {
	eal := []string{"taskset", "-c", "1"}
	if name == "dpdk" {
		eal = append(eal, "dpdk-testpmd", "--file-prefix", fmt.Sprintf("f%s%d", name, os.Getpid()), "--in-memory", "--single-file-segments", "--no-telemetry")
	} else {
		eal = append(eal, c.vionet, "testpmd")
	}
	eal = append(eal, "--lcores", "0@1,1@1", "--no-pci", "-m", "128",
		"--vdev", "net_virtio_user0,path="+socket+","+c.devargs(), "--", "--forward-mode="+c.guestMode)
	return append(eal, c.appArguments()...)
}

// appArguments are those that both ends take.
func (c contest) appArguments() []string {
	return []string{"--total-num-mbufs=16384", fmt.Sprintf("--txpkts=%d", c.size),
		fmt.Sprintf("--rxq=%d", c.pairs), fmt.Sprintf("--txq=%d", c.pairs)}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
