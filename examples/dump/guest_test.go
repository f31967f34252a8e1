package main

import (
	"regexp"
	"testing"
	"time"

	"vionet/scripts/lab"
)

// In a guest, on a function bound to vfio-pci, frames from outside come into the
// file, those alone that the filter wants.
func TestDumpInAGuest(t *testing.T) {
	lab.Need(t, "qemu")
	dump, err := lab.Build(t.Context(), t.TempDir(), "vionet/examples/dump")
	if err != nil {
		t.Fatal(err)
	}
	cable, err := lab.NewCable(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer cable.Close()
	g := lab.Boot(t, lab.Config{
		Program: []string{"/bin/dump", "-a", "0000:00:01.0", "-o", "/received.pcapng", "-c", "5", "arp"},
		Files:   map[string]string{"/bin/dump": dump},
		NICs:    []lab.NIC{{Net: cable.Net}},
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if status, err := g.Wait(t.Context()); status != 0 || err != nil {
			t.Errorf("the guest ended with status %d, %v", status, err)
		}
	}()
	others := "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01"
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		select {
		case <-ended:
			said := g.Transcript()
			if m := regexp.MustCompile(`(\d+) frames received, 5 written to /received.pcapng`).FindStringSubmatch(said); m == nil || m[1] == "5" {
				t.Errorf("the guest said\n%s", said)
			}
			return
		default:
		}
		for _, kind := range []string{"\x88\xb5", "\x08\x06"} {
			// Nobody listens while the guest boots.
			_ = cable.Send(append([]byte(others+kind), make([]byte, 46)...))
		}
	}
}
