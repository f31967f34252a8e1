package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace without a name. It lives as long as
// somebody uses it, so nothing of it outlives the test process, not even one
// that is killed.
type Namespace struct {
	file *os.File // what holds the namespace
}

// NewNamespace makes a namespace with nothing in it, and with IPv6 off so that
// the kernel itself sends no frame there. It takes root, and the caller must
// Close it.
func NewNamespace() (*Namespace, error) {
	var ns Namespace
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		var err error
		ns.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err == nil {
		err = ns.Do(silence)
	}
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return &ns, nil
}

// silence switches IPv6 off in the thread's namespace; a kernel without IPv6
// is silent already.
func silence() error {
	for _, scope := range []string{"all", "default"} {
		path := "/proc/sys/net/ipv6/conf/" + scope + "/disable_ipv6"
		if err := os.WriteFile(path, []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Do runs f on a thread inside the namespace. Sockets that f opens stay in the
// namespace; f must start no process.
func (ns *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the namespace: %w", err)
		}
		return f()
	})
}

// onThread runs f on a thread that nobody else uses meanwhile, and brings the
// thread back to the namespace where it was. Only a thread that cannot go back
// is thrown away, so that its namespace gets into nobody's hands: with a thread
// die the programs that it ever started, see startOnTerminal.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		defer home.Close()
		err = f()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// Close lets go of the namespace. A guest that still runs in it keeps it.
func (ns *Namespace) Close() error {
	if ns.file == nil {
		return nil
	}
	return ns.file.Close()
}

// wrap makes a command line that runs argv inside the namespace, with the
// process id of the command itself.
func (ns *Namespace) wrap(argv []string) []string {
	enter := fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), ns.file.Fd())
	return append([]string{"nsenter", enter, "--"}, argv...)
}

// run runs a program to its end inside the namespace, with input on its
// standard input.
func (ns *Namespace) run(input string, argv ...string) error {
	argv = ns.wrap(argv)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(input)
	_, err := output(cmd)
	return err
}

// Output runs a program to its end inside the namespace and gives what it wrote.
func (ns *Namespace) Output(ctx context.Context, argv ...string) (string, error) {
	argv = ns.wrap(argv)
	return output(exec.CommandContext(ctx, argv[0], argv[1:]...))
}

// Tap makes a tap device, named name, through which the namespace's own kernel
// talks to a guest: as a station with the address prefix. It offers offloads to
// the guest, which has to run in the namespace, see Config.Namespace.
func (ns *Namespace) Tap(name string, prefix netip.Prefix) (Net, error) {
	batch := fmt.Sprintf("tuntap add dev %[1]s mode tap vnet_hdr\naddr add %[2]v dev %[1]s\nlink set %[1]s up\n", name, prefix)
	if err := ns.run(batch, "ip", "-batch", "-"); err != nil {
		return Net{}, fmt.Errorf("tap %s: %w", name, err)
	}
	return TapNet(name, 1), nil
}

// Cable makes a tap device for a guest, named name (at most ten characters),
// and lays a cable from it into the test's hands:
//
//	guest — tap — bridge — veth — veth, where Send and Frames are
//
// The veth pair has no offloads: the kernel fills in the checksums and cuts
// the segments that the guest left to the device, so that the test sees the
// frames that a real wire would carry. The tap offers offloads to the guest.
// The guest has to run in the namespace, see Config.Namespace.
func (ns *Namespace) Cable(name string, queues int) (*Cable, error) {
	if len(name) == 0 || len(name) > 10 {
		return nil, fmt.Errorf("cable %q: a name has one to ten characters", name)
	}
	multi := ""
	if queues > 1 {
		multi = "multi_queue"
	}
	bridge, out, end := name+"-br", name+"-out", name+"-end"
	batch := fmt.Sprintf(`tuntap add dev %[1]s mode tap vnet_hdr %[5]s
link add %[2]s type bridge mcast_snooping 0
link add %[3]s type veth peer name %[4]s
link set %[1]s master %[2]s up
link set %[3]s master %[2]s up
link set %[2]s up
link set %[4]s up
`, name, bridge, out, end, multi)
	if err := ns.run(batch, "ip", "-batch", "-"); err != nil {
		return nil, fmt.Errorf("cable %s: %w", name, err)
	}
	if err := ns.run("", "ethtool", "-K", out, "tx", "off", "tso", "off", "gso", "off"); err != nil {
		return nil, fmt.Errorf("cable %s: %w", name, err)
	}
	c, err := ns.Open(end)
	if err != nil {
		return nil, err
	}
	c.Net = TapNet(name, queues)
	return c, nil
}
