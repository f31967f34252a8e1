package testpmd

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/testpmd.md anew")

// TestReferenceIsUpToDate holds docs/testpmd.md against the table of commands.
func TestReferenceIsUpToDate(t *testing.T) {
	const path = "../docs/testpmd.md"
	want := Reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is old: go test ./testpmd -run Reference -update", path)
	}
}
