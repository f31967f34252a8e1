package driver_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/port"
	"vionet/virtio"
)

// wantRx is the table of receive paths, written by hand.
func wantRx(mergeable, packed, inOrder bool, rx port.RxOffloads) string {
	switch {
	case packed && mergeable:
		return "packed ring mergeable buffer"
	case packed:
		return "packed ring standard"
	case inOrder:
		return "inorder"
	case mergeable:
		return "mergeable buffer"
	case rx == 0:
		return "simple"
	default:
		return "standard"
	}
}

func TestB04PathFollowsFromTheRequestAlone(t *testing.T) {
	rxSets := []port.RxOffloads{0, port.RxTCPCksum, port.RxUDPCksum, port.RxVLANStrip, port.RxTCPLRO, port.RxScatter}
	txSets := []port.TxOffloads{0, port.TxMultiSegs, port.TxTCPCksum, port.TxUDPCksum, port.TxTCPTSO, port.TxVLANInsert}
	extra := []virtio.Features{0, virtio.InOrder, virtio.RingPacked, virtio.InOrder | virtio.RingPacked}
	for _, mergeable := range []bool{true, false} {
		for _, more := range extra {
			for _, rx := range rxSets {
				for _, tx := range txSets {
					offered := fakedev.DefaultFeatures | more
					if !mergeable {
						offered &^= virtio.NetMrgRxbuf
						if rx&(port.RxTCPLRO|port.RxScatter) != 0 {
							continue // refused at configure: see negotiate_test.go
						}
					}
					t.Run(fmt.Sprintf("mergeable=%v/%v/rx=%v/tx=%v", mergeable, more, rx, tx), func(t *testing.T) {
						checkPaths(t, offered, mergeable, rx, tx)
					})
				}
			}
		}
	}
}

func checkPaths(t *testing.T, offered virtio.Features, mergeable bool, rx port.RxOffloads, tx port.TxOffloads) {
	r := startRig(t, rigConfig{
		dev:  fakedev.Config{Offered: offered, MTU: 9000},
		opts: driver.Options{InOrder: true},
		port: port.Config{RxOffloads: rx, TxOffloads: tx},
	})
	packed, inOrder := offered.Has(virtio.RingPacked), offered.Has(virtio.InOrder)
	paths := r.port.Paths()
	if want := wantRx(mergeable, packed, inOrder, rx); paths.Rx.Name != want {
		t.Errorf("%s Rx path, want %s", paths.Rx.Name, want)
	}
	wantTx := "simple"
	switch {
	case packed:
		wantTx = "packed ring standard"
	case inOrder:
		wantTx = "inorder"
	case tx != 0:
		wantTx = "standard"
	}
	if paths.Tx.Name != wantTx {
		t.Errorf("%s Tx path, want %s", paths.Tx.Name, wantTx)
	}
	if simplest := tx == 0; (paths.Tx.Unlock == "") != simplest || paths.Tx.Reason == "" {
		t.Errorf("Tx path %+v: wants a reason, and a way to a simpler path unless it is the simplest", paths.Tx)
	}
	if simplest := !mergeable && rx == 0; (paths.Rx.Unlock == "") != simplest || paths.Rx.Reason == "" {
		t.Errorf("Rx path %+v: wants a reason, and a way to a simpler path unless it is the simplest", paths.Rx)
	}
	for _, line := range []string{
		fmt.Sprintf("virtio: using %s Rx path on port 0", paths.Rx.Name),
		fmt.Sprintf("virtio: using %s Tx path on port 0", paths.Tx.Name),
	} {
		if !strings.Contains(r.log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, r.log.String())
		}
	}
	// Frames go through whole, both ways.
	sizes := []int{64, 1514}
	if mergeable {
		sizes = append(sizes, 9000)
	}
	for i, size := range sizes {
		want := frame(size, byte(i))
		if err := r.dev.Deliver(0, virtio.NetHeader{}, want); err != nil {
			t.Fatal(err)
		}
		if got := r.receive(4); len(got) != 1 || !bytes.Equal(got[0], want) {
			t.Errorf("%d bytes: received %d frames, or other bytes", size, len(got))
		}
		b := r.packet(want[:min(size, 2000)])
		for rest := want[min(size, 2000):]; len(rest) > 0; rest = rest[min(len(rest), 2000):] {
			b.Chain(r.packet(rest[:min(len(rest), 2000)]))
		}
		if f := r.send(b); !bytes.Equal(f.Data, want) || f.Header != (virtio.NetHeader{}) {
			t.Errorf("%d bytes: sent other bytes, or header %+v", size, f.Header)
		} else {
			r.complete(f)
		}
	}
}

func TestSimpleTxCanBeForbidden(t *testing.T) {
	r := startRig(t, rigConfig{opts: driver.Options{NoSimpleTx: true}})
	if p := r.port.Paths().Tx; p.Name != "standard" || !strings.Contains(p.Reason, "simple_tx_support=0") {
		t.Errorf("Tx path %+v", p)
	}
}

func TestMergeableCanBeRefused(t *testing.T) {
	r := startRig(t, rigConfig{opts: driver.Options{NoMergeable: true}})
	if p := r.port.Paths().Rx; p.Name != "simple" {
		t.Errorf("Rx path %+v", p)
	}
	if r.dev.Accepted().Has(virtio.NetMrgRxbuf) {
		t.Error("MRG_RXBUF was negotiated")
	}
	if r.port.Info().RxCapa&port.RxScatter != 0 {
		t.Error("SCATTER is shown as a capability without mergeable buffers")
	}
}
