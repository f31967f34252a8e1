// Package packaging_test installs vionet, and its Debian package, into
// directories of its own.
package packaging_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/scripts/lab"
)

// installed are the files that belong to vionet below /usr.
var installed = []string{
	"bin/vionet",
	"lib/systemd/system/vionet-bind.service",
	"share/bash-completion/completions/vionet",
	"share/fish/vendor_completions.d/vionet.fish",
	"share/man/man1/vionet-bench.1.gz",
	"share/man/man1/vionet-completion.1.gz",
	"share/man/man1/vionet-devbind.1.gz",
	"share/man/man1/vionet-doctor.1.gz",
	"share/man/man1/vionet-man.1.gz",
	"share/man/man1/vionet-testpmd.1.gz",
	"share/man/man1/vionet-version.1.gz",
	"share/man/man1/vionet.1.gz",
	"share/man/man7/vionet-console.7.gz",
	"share/zsh/site-functions/_vionet",
}

// settings is the file that belongs to who installed it.
const settings = "etc/default/vionet-bind"

// below lists the files below a directory.
func below(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			path, err = filepath.Rel(dir, path)
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// run runs a program with further variables in its environment.
func run(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// program builds vionet once for a test.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program; skipped by -short")
	}
	path, err := lab.Build(t.Context(), t.TempDir(), "./cmd/vionet")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstall(t *testing.T) {
	root := t.TempDir()
	env := []string{"PROGRAM=" + program(t), "PREFIX=/usr", "DESTDIR=" + root}
	run(t, env, "./install.sh", "install")
	if diff := cmp.Diff(installed, below(t, filepath.Join(root, "usr"))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	t.Run("service", func(t *testing.T) { verifyService(t, root) })
	t.Run("completions", func(t *testing.T) { parseCompletions(t, root) })

	// What somebody wrote into the settings outlives a second installation
	// and the removal; what nobody touched does not.
	written := []byte("FUNCTIONS=\"0000:00:04.0\"\n")
	path := filepath.Join(root, settings)
	if err := os.WriteFile(path, written, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, env, "./install.sh", "install")
	run(t, env, "./install.sh", "uninstall")
	if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, written) {
		t.Errorf("the settings are %q (%v), want %q", kept, err, written)
	}
	if left := below(t, root); !slices.Equal(left, []string{settings}) {
		t.Errorf("uninstall left %v", left)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	run(t, env, "./install.sh", "install")
	run(t, env, "./install.sh", "uninstall")
	if left := below(t, root); len(left) > 0 {
		t.Errorf("uninstall left %v", left)
	}
}

// verifyService has systemd read the unit, whose program lies below root here.
func verifyService(t *testing.T, root string) {
	lab.Need(t, "systemd")
	text, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/vionet-bind.service"))
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "vionet-bind.service")
	text = bytes.ReplaceAll(text, []byte("=/usr/bin/vionet"), []byte("="+root+"/usr/bin/vionet"))
	if err := os.WriteFile(unit, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if said := run(t, []string{"MANPATH=" + root + "/usr/share/man"}, "systemd-analyze", "verify", unit); said != "" {
		t.Errorf("systemd says:\n%s", said)
	}
}

// parseCompletions has each shell that is there read its script.
func parseCompletions(t *testing.T, root string) {
	for shell, path := range map[string]string{
		"bash": "share/bash-completion/completions/vionet",
		"zsh":  "share/zsh/site-functions/_vionet",
		"fish": "share/fish/vendor_completions.d/vionet.fish",
	} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("there is no %s", shell)
			continue
		}
		run(t, nil, shell, "-n", filepath.Join(root, "usr", path))
	}
}

func TestInstallErrors(t *testing.T) {
	for word, want := range map[string]string{"install": "make build first", "": "usage:"} {
		cmd := exec.Command("./install.sh", word)
		cmd.Env = append(os.Environ(), "PROGRAM=/none", "DESTDIR="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, said %q, want %q", word, err, out, want)
		}
	}
}
