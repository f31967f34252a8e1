package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vionet/bench/report"
	"vionet/bench/turns"
	"vionet/scripts/lab"
)

// The cores of a host and of a guest's processors.
const (
	hostCore  = 0
	guestCore = 1
)

// Sizes of a guest, in MiB; each contestant has some of the hugepages.
const (
	memory    = 640
	hugepages = 80 // of 2 MiB
)

// guestVionet is vionet's place in the guest.
const guestVionet = "/bin/vionet"

// host is the other end of both functions, 0 and 1.
type host interface {
	// net is what function i is plugged into.
	net(i int) lab.NIC
	// begin has the host do its part on function i, and end stops it.
	begin(ctx context.Context, i int, p part, size int) error
	end(ctx context.Context, i int) error
	// count is how many packets that part has moved on function i.
	count(ctx context.Context, i int) (uint64, error)
	// poller is the process that never leaves its core, 0 if there is none.
	poller() int
	close()
}

// rig is a machine that runs.
type rig struct {
	dir      string
	host     host
	guest    *lab.Guest
	consoles [2]*lab.Console // of DPDK and of vionet
	path     string          // that vionet chose
}

// boot starts a host and the guest with both contestants.
func (m machine) boot(ctx context.Context, vionet string) (_ *rig, err error) {
	r := &rig{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "vionet-bench-"); err != nil {
		return nil, err
	}
	if r.host, err = m.startHost(ctx, r.dir); err != nil {
		return nil, err
	}
	dpdk, files, err := lab.GuestDPDK(ctx)
	if err != nil {
		return nil, err
	}
	if files[guestVionet], err = filepath.Abs(vionet); err != nil {
		return nil, err
	}
	r.guest, err = lab.Start(ctx, lab.Config{
		Program: slices.Concat(dpdk, []string{"--in-memory", "--no-telemetry", "--iova-mode=pa"}, testpmd(0)),
		Beside:  [][]string{slices.Concat([]string{guestVionet, "testpmd"}, testpmd(1))},
		Files:   files,
		NICs:    []lab.NIC{m.nic(r.host, 0), m.nic(r.host, 1)},
		Memory:  memory, Hugepages: hugepages,
		CPUs: 2, // one forwards, one has the consoles
		KVM:  m.processor == "kvm",
		// Names of threads tell the guest's processors from QEMU's own.
		Arguments: []string{"-name", "guest,debug-threads=on"},
		Timeout:   time.Hour,
	})
	if err != nil {
		return nil, err
	}
	r.consoles = [2]*lab.Console{r.guest.Console, r.guest.Beside[0]}
	for _, c := range r.consoles {
		if _, err := c.Expect(ctx, lab.Prompt); err != nil {
			return nil, err
		}
	}
	// Only now do all threads have their names.
	if err := pinGuest(r.guest.Pid()); err != nil {
		return nil, err
	}
	r.path, err = r.consoles[1].Command(ctx, "show port 0 path")
	return r, err
}

// startHost starts the other end, with its sockets in dir. With an error there is none.
func (m machine) startHost(ctx context.Context, dir string) (host, error) {
	if m.qemu {
		w, err := newWires(dir)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
	v, err := newVhost(ctx, dir, m.iommu)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// testpmd is the rest of the command line of a contestant, that which drives function i.
func testpmd(i int) []string {
	return []string{"--lcores", "0@0,1@1", "-m", "64", "-a", fmt.Sprintf("0000:00:%02x.0", i+1), "--", "-i", "--total-num-mbufs=4096"}
}

// nic is function i.
func (m machine) nic(h host, i int) lab.NIC {
	n := h.net(i)
	switched := func(on bool) string {
		if on {
			return "on"
		}
		return "off"
	}
	n.Options = append(n.Options, "packed="+switched(m.packed), "iommu_platform="+switched(m.iommu))
	return n
}

func (r *rig) close() {
	if r.guest != nil {
		r.guest.Close()
	}
	if r.host != nil {
		r.host.close()
	}
	os.RemoveAll(r.dir)
}

// run measures one cell.
func (r *rig) run(ctx context.Context, plan turns.Plan, c cell, to *report.Cell) error {
	var both []turns.Contestant[rate]
	for i, console := range r.consoles {
		for _, line := range []string{"set fwd " + c.guestMode, fmt.Sprintf("set txpkts %d", c.size)} {
			if _, err := console.Command(ctx, line); err != nil {
				return err
			}
		}
		both = append(both, contestant{r, i, c})
	}
	result, err := turns.Alternate(ctx, plan, both...)
	if err != nil {
		return err
	}
	result.Fill(to, 0, 1, rate.mpps)
	to.Of.Path = strings.Join(strings.Fields(r.path), " ")
	if to.Ratio.Median == 0 {
		return errIdle
	}
	return nil
}

// errIdle is the error of a cell in which one of the contestants did nothing.
var errIdle = errors.New("no frame was moved in most of the windows")

// rate is what a contestant did in a window, in packets a second.
type rate float64

func (r rate) mpps() float64 { return float64(r) / 1e6 }

// contestant is one of the two drivers in a cell.
type contestant struct {
	*rig
	i int
	cell
}

// Kill has nothing to do: the next cell wants the driver, too.
func (c contestant) Kill() {}

// warmUp is the time between the start of both ends and the first count.
const warmUp = 60 * time.Millisecond

// Measure has the driver forward for a window.
func (c contestant) Measure(ctx context.Context, window time.Duration) (r rate, err error) {
	console := c.consoles[c.i]
	if _, err := console.Command(ctx, "start"); err != nil {
		return 0, err
	}
	if err := c.rig.host.begin(ctx, c.i, c.topology.host, c.size); err != nil {
		return 0, err
	}
	r, counted := c.count(ctx, window)
	if err := c.rig.host.end(ctx, c.i); err != nil {
		return 0, err
	}
	_, err = console.Command(ctx, "stop")
	return r, cmp.Or(err, counted)
}

// count is the rate in a window.
func (c contestant) count(ctx context.Context, window time.Duration) (rate, error) {
	if err := turns.Sleep(ctx, warmUp); err != nil {
		return 0, err
	}
	before, err := c.look(ctx)
	if err != nil {
		return 0, err
	}
	if err := turns.Sleep(ctx, window); err != nil {
		return 0, err
	}
	after, err := c.look(ctx)
	if err != nil {
		return 0, err
	}
	passed := after.at.Sub(before.at)
	return rate(float64(after.packets-before.packets) / passed.Seconds()), disturbance(before.had, after.had, passed)
}

// reading is how far a contestant is at a moment.
type reading struct {
	packets uint64
	had     map[string]time.Duration // processor time of those that poll, by their names
	at      time.Time
}

func (c contestant) look(ctx context.Context) (r reading, err error) {
	if r.packets, err = c.rig.host.count(ctx, c.i); err != nil {
		return r, err
	}
	r.at = time.Now()
	pid := c.rig.host.poller()
	if pid == 0 {
		return r, nil // the guest waits for QEMU now and then
	}
	// A testpmd that forwards keeps its processor busy, whatever comes.
	guest, err := threads(c.guest.Pid(), isProcessor)
	if err != nil {
		return r, err
	}
	host, err := threads(pid, nil)
	if err != nil {
		return r, err
	}
	others, err := threads(c.guest.Pid(), func(name string) bool { return !isProcessor(name) })
	if err != nil {
		return r, err
	}
	r.had = map[string]time.Duration{"the guest": guest.had(), "the host": host.had() + others.had()}
	return r, nil
}
