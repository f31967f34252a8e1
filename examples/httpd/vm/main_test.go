package main

import (
	"testing"

	"vionet/scripts/lab"
)

// What make vm-httpd measures, with less: the server in a guest without a kernel
// network is reached, serves many at once, and what it serves arrives whole.
func TestServesInGuest(t *testing.T) {
	lab.Need(t, "qemu", "net", "curl", "root")
	rate, err := measure(t.Context(), contestants[0].name, contestants[0].cfg, 10_000_000, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f Mb/s", rate)
}
