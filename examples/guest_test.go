package examples_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vionet/scripts/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The examples drive PCI functions, as they drive sockets: in a guest with three
// functions on one hub, bound to vfio-pci.
func TestExamplesInVM(t *testing.T) {
	lab.Need(t, "qemu")
	cfg := lab.Config{
		NICs:  []lab.NIC{{Net: lab.Hub(0)}, {Net: lab.Hub(0)}, {Net: lab.Hub(0)}},
		CPUs:  2,
		Files: map[string]string{},
	}
	dir := t.TempDir()
	for _, name := range []string{"arping", "echo", "l2fwd", "loadbalancer", "udpblast"} {
		path, err := lab.Build(t.Context(), dir, "vionet/examples/"+name)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Files["/"+name] = path
	}
	lab.RunTests(t, "vionet/examples", "^TestGuest", cfg)
}

// TestGuestExamples runs in the guest: a program on the first function, and one on
// the second, or on the second and the third, which says what it did.
func TestGuestExamples(t *testing.T) {
	if os.Getenv("VIONET_GUEST") != "1" {
		t.Skip("runs inside a guest of the lab")
	}
	const first, second, third = "-a 0000:00:01.0", "-a 0000:00:02.0", "-a 0000:00:03.0"
	const sender = "/udpblast -rate 20000 -seconds 60 " + first
	for _, c := range []struct{ behind, program, want string }{
		{"/arping -source 192.0.2.1 -count 1000 -interval 100ms " + first + " 192.0.2.2",
			"/arping -source 192.0.2.2 " + second + " 192.0.2.1", "192.0.2.1 is at 52:54:00:00:00:01"},
		{sender, "/echo -count 500 " + second, "returned 5"},
		{sender, "/l2fwd -count 500 " + second + " " + third, "port 1: received"},
		{sender, "/loadbalancer -queues 1 -count 500 -server 02:00:00:00:00:11 " + second, "server 02:00:00:00:00:11: 5"},
	} {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		behind := command(ctx, c.behind)
		if err := behind.Start(); err != nil {
			t.Fatal(err)
		}
		out, err := command(ctx, c.program).CombinedOutput()
		if err != nil || ctx.Err() != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, %v\n%s", c.program, err, ctx.Err(), out)
		}
		t.Logf("%s\n%s", c.program, out)
		stop()
		behind.Wait() // it was killed
	}
}

// command makes a command of a line. The end of ctx kills it, and the kernel takes
// its function back.
func command(ctx context.Context, line string) *exec.Cmd {
	argv := strings.Fields(line)
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}
