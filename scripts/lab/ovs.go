package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Open vSwitch with DPDK in it, as Debian installs it beside the one that may
// run there as a service, and the schema of its database.
const (
	vswitchd  = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
	ovsSchema = "/usr/share/openvswitch/vswitch.ovsschema"
)

// ovsMemory is the switch's packet memory in MiB.
const ovsMemory = 256

// OVS is a private Open vSwitch, whose one bridge switches between vhost-user
// ports. Its database, sockets and logs are in a directory of its own, and its
// interfaces in a namespace of its own: it knows nothing of the system's switch.
type OVS struct {
	dir      string
	ns       *Namespace
	database *Process
	daemon   *Process
}

// StartOVS starts a switch with a port for each socket, where the front end
// listens. It tries on until one does, and whenever the front end has gone. The
// switch forwards on processor 0, out of 256 MiB of hugepages, whose number is
// raised when too few are free. It takes root; the caller must Close it.
func StartOVS(ctx context.Context, sockets ...string) (*OVS, error) {
	dir, err := os.MkdirTemp("", "vionet-ovs-")
	if err != nil {
		return nil, err
	}
	s := &OVS{dir: dir}
	if err := s.start(ctx, sockets); err != nil {
		s.Close()
		return nil, fmt.Errorf("Open vSwitch: %w", err)
	}
	return s, nil
}

func (s *OVS) start(ctx context.Context, sockets []string) (err error) {
	if err := needHugepages(ovsMemory / 2); err != nil {
		return err
	}
	if s.ns, err = NewNamespace(); err != nil {
		return err
	}
	if err := s.tool(ctx, "ovsdb-tool", "create", s.path("conf.db"), ovsSchema); err != nil {
		return err
	}
	if s.database, err = s.run(ctx, "ovsdb-server", s.path("conf.db"), "--remote=p"+s.remote()); err != nil {
		return err
	}
	if _, err := s.database.Expect(ctx, "ovsdb-server (Open vSwitch)"); err != nil {
		return err
	}
	if err := s.configure(ctx, "--no-wait", "init"); err != nil {
		return err
	}
	if err := s.configure(ctx, "--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true",
		fmt.Sprintf("other_config:dpdk-socket-mem=%d", ovsMemory), fmt.Sprintf("other_config:dpdk-socket-limit=%d", ovsMemory),
		"other_config:dpdk-extra=--no-pci --in-memory", "other_config:pmd-cpu-mask=1", "other_config:dpdk-lcore-mask=1"); err != nil {
		return err
	}
	if err := s.startDaemon(ctx); err != nil {
		return err
	}
	bridge := []string{"add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"}
	for i, socket := range sockets {
		name := fmt.Sprintf("vhost%d", i)
		bridge = append(bridge, "--", "add-port", "br0", name, "--", "set", "Interface", name,
			"type=dpdkvhostuserclient", "options:vhost-server-path="+socket)
	}
	return s.configure(ctx, bridge...)
}

// startDaemon starts the switch itself, as the database says.
func (s *OVS) startDaemon(ctx context.Context) (err error) {
	s.daemon, err = s.run(ctx, vswitchd, s.remote())
	return err
}

// Restart kills the switch and starts it again, with the database as it is.
func (s *OVS) Restart(ctx context.Context) error {
	s.daemon.Close()
	return s.startDaemon(ctx)
}

// Close ends the switch and removes its files. It may be called again.
func (s *OVS) Close() {
	for _, p := range []*Process{s.daemon, s.database} {
		if p != nil {
			p.Close()
		}
	}
	if s.ns != nil {
		s.ns.Close()
	}
	os.RemoveAll(s.dir)
}

func (s *OVS) path(name string) string { return filepath.Join(s.dir, name) }

// remote is where the database listens.
func (s *OVS) remote() string { return "unix:" + s.path("db.sock") }

// environment keeps all files in the switch's directory.
func (s *OVS) environment() []string {
	return []string{"OVS_RUNDIR=" + s.dir, "OVS_LOGDIR=" + s.dir, "OVS_DBDIR=" + s.dir}
}

// run starts one of the switch's programs.
func (s *OVS) run(ctx context.Context, argv ...string) (*Process, error) {
	return Run(ctx, nil, s.environment(), s.ns.wrap(argv)...)
}

// configure runs ovs-vsctl, which waits until the switch has done what it says.
func (s *OVS) configure(ctx context.Context, words ...string) error {
	return s.tool(ctx, "ovs-vsctl", append([]string{"--timeout=30", "--db=" + s.remote()}, words...)...)
}

// tool runs a program to its end.
func (s *OVS) tool(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), s.environment()...)
	_, err := output(cmd)
	return err
}

// Switch is StartOVS for a test, with the care of Boot.
func Switch(t testing.TB, sockets ...string) *OVS {
	t.Helper()
	s, err := StartOVS(t.Context(), sockets...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		logIfFailed(t, s.daemon)
		s.Close()
	})
	return s
}
