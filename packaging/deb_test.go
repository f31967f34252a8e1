package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/scripts/lab"
)

// TestDeb builds the package and has dpkg install, remove and purge it in a
// directory that is a system of its own.
func TestDeb(t *testing.T) {
	if !lab.Full() {
		t.Skip("builds the packer and the package; VIONET_FULL=1 is not set")
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // for dpkg's own needs
	out := t.TempDir()
	run(t, []string{"VERSION=1.2.3-rc1", "OUT=" + out}, "./deb.sh", "amd64")
	deb := filepath.Join(out, "vionet_1.2.3~rc1_amd64.deb")
	fields := run(t, nil, "dpkg-deb", "--field", deb)
	for _, want := range []string{"Package: vionet\n", "Version: 1.2.3~rc1\n", "Architecture: amd64\n", "Description: Virtio-net devices in user space\n"} {
		if !strings.Contains(fields, want) {
			t.Errorf("no %q in\n%s", want, fields)
		}
	}

	root := t.TempDir()
	dpkg := func(argv ...string) {
		t.Helper()
		run(t, nil, append([]string{"dpkg", "--root=" + root, "--force-script-chrootless,not-root", "--log=/dev/null"}, argv...)...)
	}
	emptySystem(t, root)
	dpkg("--install", deb)
	want := append(slices.Clone(installed), "share/doc/vionet/changelog.gz", "share/doc/vionet/copyright")
	want[slices.Index(want, "share/zsh/site-functions/_vionet")] = "share/zsh/vendor-completions/_vionet"
	slices.Sort(want)
	if diff := cmp.Diff(want, below(t, filepath.Join(root, "usr"))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if said := run(t, nil, filepath.Join(root, "usr/bin/vionet"), "version"); !strings.HasPrefix(said, "vionet ") {
		t.Errorf("the installed program says %q", said)
	}

	path := filepath.Join(root, settings)
	if err := os.WriteFile(path, []byte("FUNCTIONS=\"0000:00:04.0\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg("--remove", "vionet")
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the settings went with the package: %v", err)
	}
	dpkg("--purge", "vionet")
	if _, err := os.Stat(path); err == nil {
		t.Error("the settings are left after a purge")
	}
	if left, err := os.ReadDir(filepath.Join(root, "usr")); err == nil && len(left) > 0 {
		t.Errorf("left below /usr: %v", left)
	}
}

// emptySystem makes what dpkg wants of a system before its first package.
func emptySystem(t *testing.T, root string) {
	t.Helper()
	admin := filepath.Join(root, "var/lib/dpkg")
	for _, dir := range []string{"info", "updates"} {
		if err := os.MkdirAll(filepath.Join(admin, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(admin, "status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}
