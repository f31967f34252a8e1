package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeTools puts shell scripts of the given names in front of the PATH. They
// may use $STATE, a directory of their own.
func fakeTools(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("STATE", t.TempDir())
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

const (
	// An apt whose indexes are empty until it is told to update.
	freshCache = `[ -e $STATE/updated ] && echo '  Depends: linux-image-1-cloud-amd64' || exit 100`
	freshGet   = `case "$*" in
*update) echo . >>$STATE/updated ;;
*'download linux-image-1-cloud-amd64') echo deb >linux-image-1.deb; echo . >>$STATE/downloads ;;
*) exit 100 ;;
esac`
	unpack = `mkdir -p $3/boot $3/lib/modules/1/kernel && cp $2 $3/boot/vmlinuz-1`
)

func TestKernelIsFetchedOnce(t *testing.T) {
	fakeTools(t, map[string]string{"apt-cache": freshCache, "apt-get": freshGet, "dpkg-deb": unpack})
	dir := t.TempDir()
	for range 2 {
		k, err := Kernel(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(dir, "kernel/boot/vmlinuz-1"); k.Vmlinuz != want {
			t.Errorf("image %s, want %s", k.Vmlinuz, want)
		}
		if want := filepath.Join(dir, "kernel/lib/modules/1/kernel"); k.Modules != want {
			t.Errorf("modules %s, want %s", k.Modules, want)
		}
	}
	for _, name := range []string{"updated", "downloads"} {
		if times, _ := os.ReadFile(filepath.Join(os.Getenv("STATE"), name)); string(times) != ".\n" {
			t.Errorf("%s: %q, want once", name, times)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "fetch-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestKernelSaysWhyItCannotBeFetched(t *testing.T) {
	for _, c := range []struct {
		name  string
		tools map[string]string
		want  string
	}{
		{
			"apt knows no such package",
			map[string]string{"apt-cache": "exit 0", "apt-get": "exit 0"},
			"Debian's package sources are needed",
		},
		{
			"apt may not update",
			map[string]string{"apt-cache": "exit 100", "apt-get": "echo 'E: Permission denied' >&2; exit 100"},
			"as root, apt-get update may help",
		},
		{
			"package damaged",
			map[string]string{"apt-cache": freshCache, "apt-get": freshGet, "dpkg-deb": "echo 'no archive' >&2; exit 2"},
			"no archive",
		},
		{
			"package without a kernel",
			map[string]string{"apt-cache": freshCache, "apt-get": freshGet, "dpkg-deb": "mkdir $3"},
			"holds no single kernel",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeTools(t, c.tools)
			if _, err := Kernel(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("no apt", func(t *testing.T) {
		t.Setenv("PATH", "")
		if _, err := Kernel(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "no apt-get here") {
			t.Errorf("%v", err)
		}
	})
}

func TestCacheDirObeysTheEnvironment(t *testing.T) {
	t.Setenv("VIONET_LAB_DIR", "/elsewhere")
	if dir, err := CacheDir(); dir != "/elsewhere" || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
	t.Setenv("VIONET_LAB_DIR", "")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := CacheDir(); dir != filepath.Join(root, ".lab") || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
}
