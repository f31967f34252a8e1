package guest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"vionet/bench/report"
	"vionet/bench/turns"
	"vionet/scripts/lab"
)

// A guest with both drivers boots, and each moves frames; the other cells are not
// measured.
func TestOneCell(t *testing.T) {
	lab.Need(t, "qemu", "dpdk", "root")
	binary, err := lab.Build(t.Context(), t.TempDir(), "./cmd/vionet")
	if err != nil {
		t.Fatal(err)
	}
	const name = "guest/vhost/no-iommu/split/loopback/64B"
	told := 0
	tables, err := Measure(t.Context(), Settings{
		Vionet: binary, Cells: regexp.MustCompile("^" + name + "$"),
		Plan: turns.Plan{Windows: 1, Window: 100 * time.Millisecond},
		Tell: func(done, total int, c report.Cell, err error) {
			told++
			if done != 1 || total != 1 || err != nil {
				t.Errorf("told of %s, number %d of %d: %v", c.Name, done, total, err)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) != 1 || tables[0].Name != "guest-vhost" || len(tables[0].Cells) != 1 || told != 1 {
		t.Fatalf("told of %d cells: %+v", told, tables)
	}
	c := tables[0].Cells[0]
	if !c.Measured() || c.Name != name || c.Windows != 1 {
		t.Fatalf("%+v", c)
	}
	if dpdk, vionet := c.Against.Value.Median, c.Of.Value.Median; dpdk <= 0 || vionet <= 0 {
		t.Errorf("rates %v and %v", dpdk, vionet)
	} else if ratio := vionet / dpdk; c.Ratio.Median < 0.999*ratio || c.Ratio.Median > 1.001*ratio {
		t.Errorf("ratio %v of %v and %v", c.Ratio.Median, vionet, dpdk)
	}
	if c.Of.Path == "" {
		t.Error("vionet did not say its path")
	}
	fmt.Printf("cell: %s: %.3f to %.3f Mpps\n", c.Name, c.Of.Value.Median, c.Against.Value.Median)
}

// What cannot be measured at all is said before a guest is booted.
func TestMeasureRefuses(t *testing.T) {
	ctx := t.Context()
	if _, err := Measure(ctx, Settings{Cells: regexp.MustCompile("no such cell")}); err == nil {
		t.Error("no cell has the name, and no error")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Measure(ctx, Settings{}); err == nil {
		t.Error("no program is there, and no error")
	}
}

// An end of the run leaves every cell in the table, with the reason.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var cells []report.Cell
	machine{}.measure(ctx, Settings{}, func(c report.Cell, err error) {
		if err == nil {
			t.Errorf("%s has no error", c.Name)
		}
		cells = append(cells, c)
	})
	if len(cells) != len(topologies)*len(sizes) {
		t.Fatalf("%d cells", len(cells))
	}
	for _, c := range cells {
		if c.Measured() || c.Missing != context.Canceled.Error() {
			t.Errorf("%s: %q", c.Name, c.Missing)
		}
	}
}

func TestList(t *testing.T) {
	all := Settings{}.List()
	if want := len(machines) * len(topologies) * len(sizes); len(all) != want {
		t.Errorf("%d cells, want %d", len(all), want)
	}
	if len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
		t.Error("two cells have the same name")
	}
	got := Settings{Cells: regexp.MustCompile("qemu/no-iommu/.*/1400B")}.List()
	want := []string{
		"guest/qemu/no-iommu/split/guest-to-host/1400B",
		"guest/qemu/no-iommu/split/host-to-guest/1400B",
		"guest/qemu/no-iommu/split/loopback/1400B",
	}
	if !slices.Equal(got, want) {
		t.Errorf("selected %q", got)
	}
}

// qemu is the end of a wire that a guest has.
func qemu(t *testing.T, dir string) *net.UnixConn {
	t.Helper()
	near, far := filepath.Join(dir, "qemu0.sock"), filepath.Join(dir, "wire0.sock")
	conn, err := net.DialUnix("unixgram", &net.UnixAddr{Name: near, Net: "unixgram"}, &net.UnixAddr{Name: far, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A wire counts what it receives, what it sends, and what comes back to it. Frames
// that were lost on their way round are replaced.
func TestWires(t *testing.T) {
	const size, frames = 64, 500
	for _, c := range []struct {
		name  string
		part  part
		guest func(*net.UnixConn) error
	}{
		{"drains", drains, func(conn *net.UnixConn) error {
			for range frames {
				if _, err := conn.Write(make([]byte, size)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"floods", floods, func(conn *net.UnixConn) error { return receive(conn, frames, size) }},
		{"reflects", reflects, func(conn *net.UnixConn) error {
			if err := receive(conn, circling, size); err != nil { // all are lost
				return err
			}
			for range frames {
				if err := receive(conn, 1, size); err != nil {
					return err
				}
				if _, err := conn.Write(make([]byte, size)); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			w, err := newWires(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			conn := qemu(t, dir)
			if err := w.begin(t.Context(), 0, c.part, size); err != nil {
				t.Fatal(err)
			}
			if err := c.guest(conn); err != nil {
				t.Fatal(err)
			}
			for moved := uint64(0); moved < frames; moved, _ = w.count(t.Context(), 0) {
				time.Sleep(time.Millisecond)
			}
			if err := w.end(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// receive wants frames of one size.
func receive(conn *net.UnixConn, frames, size int) error {
	buffer := make([]byte, 2*size)
	for range frames {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		if n != size {
			return fmt.Errorf("a frame of %d bytes", n)
		}
	}
	return nil
}

// The processor time of threads grows when they work; threads that are not there are
// an error.
func TestThreads(t *testing.T) {
	read := func() time.Duration {
		g, err := threads(os.Getpid(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return g.had()
	}
	before := read()
	for read() == before { // reading is work
	}
	if _, err := threads(os.Getpid(), isProcessor); err == nil {
		t.Error("this process has processors of a guest")
	}
}

func TestDisturbance(t *testing.T) {
	before := map[string]time.Duration{"a": 5, "b": 7}
	for _, c := range []struct {
		a, b      time.Duration
		disturbed bool
	}{
		{1000, 1000, false},
		{1000, 900, false},
		{1000, 899, true},
		{800, 1000, true},
	} {
		err := disturbance(before, map[string]time.Duration{"a": 5 + c.a, "b": 7 + c.b}, 1000)
		if (err != nil) != c.disturbed {
			t.Errorf("%d and %d of 1000: %v", c.a, c.b, err)
		}
	}
}
