package lab

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Everything that testpmd loads is there, and no library under two names.
func TestGuestDPDK(t *testing.T) {
	Need(t, "dpdk")
	argv, files, err := GuestDPDK(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for guest, host := range files {
		if _, err := os.Stat(host); err != nil {
			t.Error(err)
		}
		real, err := filepath.EvalSymlinks(host)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[real]; twice {
			t.Errorf("%s is %s and %s", real, other, guest)
		}
		seen[real] = guest
	}
	for _, option := range []int{2, 4, 6} {
		if driver := argv[option]; files["/lib/"+driver] == "" {
			t.Errorf("driver %s is no file of the guest", driver)
		}
	}
	if argv[0] != guestTestpmd || !slices.Contains(argv, "-d") {
		t.Errorf("command line %q", argv)
	}
}
