package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"vionet/scripts/lab"
)

// probe is what the guest's systemd runs: it starts and stops the service, and
// shows each time which driver the two functions have.
const probe = `exec >/dev/ttyS0 2>&1
show() { echo "$1: $(systemctl is-active vionet-bind) $(vionet devbind --status | sed -n 's/.*drv=\([a-z-]*\).*/\1/p' | tr '\n' ' ')"; }
show before
systemctl start vionet-bind
show "without functions"
sed 's/^FUNCTIONS=.*/FUNCTIONS="0000:00:01.0 0000:00:02.0"/' -i /etc/default/vionet-bind
systemctl start vionet-bind
show started
systemctl stop vionet-bind
show stopped
sed 's/^FUNCTIONS=.*/FUNCTIONS="0000:00:01.0 0000:00:1e.0"/' -i /etc/default/vionet-bind
systemctl start vionet-bind
show "wrong address"
`

// TestServiceInGuest boots a guest whose second init is the systemd of this
// machine, with the service and no other.
func TestServiceInGuest(t *testing.T) {
	lab.Need(t, "qemu", "systemd")
	root := t.TempDir()
	run(t, []string{"PROGRAM=" + program(t), "PREFIX=/usr", "DESTDIR=" + root}, "./install.sh", "install")
	files := withLibraries(t, "/lib/systemd/systemd", "/bin/systemctl", "/bin/sh", "/bin/sed", "/usr/bin/tr", "/usr/bin/unshare")
	for _, name := range []string{"usr/bin/vionet", "usr/lib/systemd/system/vionet-bind.service", settings} {
		files["/"+name] = filepath.Join(root, name)
	}
	for name, text := range map[string]string{
		"/probe": probe,
		"/etc/systemd/system/probe.service": "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nEnvironment=PATH=/usr/bin:/bin\n" +
			"ExecStart=/bin/sh /probe\n",
		"/etc/os-release": "ID=guest\n",
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files[name] = path
	}
	g := lab.Boot(t, lab.Config{
		Program: []string{"/usr/bin/unshare", "--pid", "--fork", "--mount", "--mount-proc", "/lib/systemd/systemd", "--system", "--show-status=no", "--unit=probe.service"},
		Files:   files,
		Env:     []string{"container=lab"},
		NICs:    []lab.NIC{{Net: lab.Hub(0)}, {Net: lab.Hub(0)}},
		Driver:  "none",
		Modules: slices.Concat(lab.VirtioModules, lab.VFIOModules),
	})
	for _, line := range []string{
		"before: inactive virtio-pci virtio-pci",
		"without functions: inactive virtio-pci virtio-pci",
		"started: active vfio-pci vfio-pci",
		"stopped: inactive virtio-pci virtio-pci",
		"wrong address: failed virtio-pci virtio-pci",
	} {
		if _, err := g.Expect(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
}

// library is a line of ldd.
var library = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

// withLibraries maps programs of this machine, and the libraries that they
// need, into a guest under the same names.
func withLibraries(t *testing.T, programs ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, path := range programs {
		files[path] = path
		out, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", path, err)
		}
		for _, m := range library.FindAllStringSubmatch(string(out), -1) {
			files[m[1]] = m[1]
		}
	}
	return files
}
