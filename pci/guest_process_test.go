package pci_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"vionet/virtio"
)

// holdVariable names the function that TestGuestHold opens.
const holdVariable = "VIONET_HOLD"

// TestGuestKilled lets another process use a function, which keeps this one
// from it, and kills it in the middle: the function is quiet then and can be
// used again.
func TestGuestKilled(t *testing.T) {
	for _, f := range inGuest(t) {
		t.Run(f.cell, func(t *testing.T) {
			holder := exec.Command("/proc/self/exe", "-test.run=^TestGuestHold$")
			holder.Env = append(os.Environ(), holdVariable+"="+f.BDF)
			out, err := holder.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := holder.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { holder.Process.Kill(); holder.Wait() }()
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "holding "+f.BDF+"\n" {
				t.Fatalf("the other process says %q, %v", line, err)
			}
			if readConfigSpace(t, f)[4]&4 == 0 {
				t.Error("the function does no DMA while it is used")
			}
			if tr, err := openFunction(f); err == nil {
				tr.Close()
				t.Error("two processes opened the function")
			}
			if err := holder.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			holder.Wait()
			checkQuiet(t, f)
			fmt.Printf("cell %s: %s: used again after kill -9\n", f.Driver, f.cell)
		})
	}
}

// TestGuestHold is the other process of TestGuestKilled.
func TestGuestHold(t *testing.T) {
	bdf := os.Getenv(holdVariable)
	if bdf == "" {
		t.Skip("nothing to hold")
	}
	for _, f := range inGuest(t) {
		if f.BDF != bdf {
			continue
		}
		d := openNet(t, f)
		d.transport.Watch(func() {})
		mem := newNetMemory(t, d.transport.Addressing(), false)
		d.start(t, mem, true)
		if s, err := d.transport.Status(); err != nil || !s.Has(virtio.StatusDriverOK) {
			t.Fatalf("status %v, %v", s, err)
		}
		fmt.Printf("holding %s\n", bdf)
		time.Sleep(time.Minute)
	}
}
