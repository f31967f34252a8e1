package docs_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// core are the packages of the driver, and what programs need to use it.
var core = []string{"./driver/...", "./ring/...", "./mbuf/...", "./virtio/...", "./pci/...", "./vhost/...", "./port", "./port/ringport", "./port/tapport", "./offload/..."}

// allowed are the modules that the core may need.
var allowed = []string{"vionet", "golang.org/x/sys", "github.com/u-root/u-root"}

// Whoever uses the driver gets no large library with it.
func TestCoreImportsLittle(t *testing.T) {
	const module = "{{with .Module}}{{.Path}}{{end}}"
	cmd := exec.Command("go", append([]string{"list", "-deps", "-f", module}, core...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := strings.Fields(string(out))
	slices.Sort(found)
	found = slices.Compact(found)
	for _, m := range found {
		if !slices.Contains(allowed, m) {
			t.Errorf("the core imports %s: keep that to an adapter, in a module of its own", m)
		}
	}
	if !slices.Contains(found, "vionet") {
		t.Errorf("only %v were found", found)
	}
}
