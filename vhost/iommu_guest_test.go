package vhost

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/scripts/lab"
	"vionet/virtio"
)

// vionet in a guest whose IOMMU lies between it and the back end, which knows no
// address but those that QEMU translates for it. Every frame comes back as it
// was.
func TestGuestBehindIOMMU(t *testing.T) {
	lab.Need(t, "qemu")
	program, err := lab.Build(t.Context(), t.TempDir(), "vionet/cmd/vionet")
	if err != nil {
		t.Fatal(err)
	}
	for _, ring := range []string{"packed=off", "packed=on"} {
		t.Run(ring, func(t *testing.T) {
			r := newPortRig(t, PortConfig{Packed: true, IOMMU: true}, port.Config{})
			g := lab.Boot(t, lab.Config{
				Program:   []string{"/bin/vionet", "testpmd", "--", "-i", "--total-num-mbufs=2048"},
				Files:     map[string]string{"/bin/vionet": program},
				NICs:      []lab.NIC{{Net: lab.VhostUser(r.path, 1), Options: []string{"iommu_platform=on", ring}}},
				Memory:    256,
				Hugepages: 16,
			})
			if _, err := g.Expect(t.Context(), lab.Prompt); err != nil {
				t.Fatal(err)
			}
			lab.Command(t, g.Console, "start")
			const frames = 3000
			tx, rx := r.port.TxQueue(0), r.port.RxQueue(0)
			sent, received := 0, 0
			for limit := time.Now().Add(time.Minute); received < frames; time.Sleep(20 * time.Microsecond) {
				if time.Now().After(limit) {
					t.Fatalf("%d frames of %d came back, %d were sent; %v, %v", received, frames, sent, rx.Err(), tx.Err())
				}
				var bufs [32]*mbuf.Buf
				n := 0
				for ; n < len(bufs) && sent+n < min(frames, received+256); n++ {
					bufs[n] = packetOf(t, r.pool, migrationFrame(sent+n), 2048)
				}
				took := tx.Burst(bufs[:n])
				for _, b := range bufs[took:n] {
					b.Free()
				}
				sent += took
				for _, b := range bufs[:rx.Burst(bufs[:])] {
					if got, want := bytesOf(b), migrationFrame(received); !bytes.Equal(got, want) {
						t.Fatalf("frame %d came back as\n%x, want\n%x", received, got, want)
					}
					received++
					b.Free()
				}
			}
			if q := r.port.(*vhostPort).backend.TxQueue(0); !q.negotiated().Has(virtio.AccessPlatform) {
				t.Error("the addresses were not translated")
			}
			fmt.Printf("cell: IOMMU, %s: %d frames there and back\n", ring, received)
			if err := g.Send("quit"); err != nil {
				t.Fatal(err)
			}
			if status, err := g.Wait(t.Context()); status != 0 || err != nil {
				t.Errorf("exit status %d, %v", status, err)
			}
		})
	}
}

func (q *Queue) negotiated() virtio.Features {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.features
}
