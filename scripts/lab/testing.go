package lab

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Boot is Start for a test: it fails the test when the guest does not start,
// ends the guest with the test, and logs the dialogue of a test that failed.
func Boot(t testing.TB, cfg Config) *Guest {
	t.Helper()
	g, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logIfFailed(t, g.Process); g.Close() })
	return g
}

// Spawn is Run for a test, with the care of Boot.
func Spawn(t testing.TB, argv ...string) *Process {
	t.Helper()
	p, err := Run(t.Context(), nil, nil, argv...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logIfFailed(t, p); p.Close() })
	return p
}

// SpawnIn is Spawn inside a network namespace.
func SpawnIn(t testing.TB, ns *Namespace, argv ...string) *Process {
	t.Helper()
	return Spawn(t, ns.wrap(argv)...)
}

// Testpmd is StartDPDK for a test, with the care of Boot.
func Testpmd(t testing.TB, cfg DPDK) *Process {
	t.Helper()
	p, err := StartDPDK(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logIfFailed(t, p); p.Close() })
	return p
}

// logIfFailed shows what a failed test heard.
func logIfFailed(t testing.TB, p *Process) {
	if t.Failed() {
		t.Logf("the whole dialogue with %s:\n%s", p.name, p.Transcript())
	}
}

// Command is Console.Command for a test.
func Command(t testing.TB, p *Console, line string) string {
	t.Helper()
	answer, err := p.Command(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// RunTests runs tests of a package inside a guest: it builds the package's
// test binary, boots a guest as cfg says (Program, Env and Dir aside) with
// -test.run=run, and logs what the tests say. In the guest VIONET_GUEST is 1
// and the package's testdata is where tests look for it. The calling test
// fails when one of them fails, when none matches, or when the guest dies.
func RunTests(t testing.TB, pkg, run string, cfg Config) {
	t.Helper()
	Need(t, "qemu")
	ctx := t.Context()
	binary, err := BuildTest(ctx, t.TempDir(), pkg)
	if err != nil {
		t.Fatal(err)
	}
	files, err := testFiles(pkg, binary)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(files, cfg.Files)
	cfg.Files = files
	cfg.Program = []string{guestTest, "-test.v", "-test.run=" + run}
	cfg.Env = append(cfg.Env, "VIONET_GUEST=1", "GOTRACEBACK=all")
	cfg.Dir = filepath.Dir(guestTest)
	lines := &lineLogger{t: t}
	if cfg.Mirror != nil {
		cfg.Mirror = io.MultiWriter(cfg.Mirror, lines)
	} else {
		cfg.Mirror = lines
	}
	g, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	status, err := g.Wait(ctx)
	switch said := g.Transcript(); {
	case err != nil:
		t.Fatal(err)
	case status != 0:
		t.Fatalf("the tests of %s failed in the guest: exit status %d", pkg, status)
	case !strings.Contains(said, "--- PASS: "):
		t.Fatalf("no test of %s ran in the guest; %q matched none, or all were skipped", pkg, run)
	}
}

// guestTest is the test binary's place in the guest.
const guestTest = "/pkg/test"

// testFiles maps the test binary and the package's testdata into the guest.
func testFiles(pkg, binary string) (map[string]string, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	files := map[string]string{guestTest: binary}
	dir := filepath.Join(root, strings.TrimPrefix(pkg, "vionet/"))
	err = filepath.WalkDir(filepath.Join(dir, "testdata"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[filepath.Join(filepath.Dir(guestTest), name)] = path
		return err
	})
	if os.IsNotExist(err) {
		err = nil // most packages have no testdata
	}
	return files, err
}

// lineLogger writes whole lines into a test's log.
type lineLogger struct {
	t    testing.TB
	rest string
}

func (l *lineLogger) Write(b []byte) (int, error) {
	text := l.rest + strings.ReplaceAll(string(b), "\r", "")
	for {
		line, rest, found := strings.Cut(text, "\n")
		if !found {
			break
		}
		l.t.Log(line)
		text = rest
	}
	l.rest = text
	return len(b), nil
}
