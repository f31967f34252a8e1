package vhost

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"vionet/mbuf"
	"vionet/port"
)

// DPDK's front end sends to the port, and receives from it.
func TestPortDPDKFrontend(t *testing.T) {
	for _, devargs := range []string{
		"packed_vq=0,mrg_rxbuf=0,in_order=0",
		"packed_vq=0,mrg_rxbuf=1,in_order=1",
		"packed_vq=1,mrg_rxbuf=1,in_order=0",
		"packed_vq=1,mrg_rxbuf=0,in_order=1",
		"packed_vq=0,server=1",
	} {
		t.Run(devargs, func(t *testing.T) {
			r := newPortRig(t, PortConfig{Packed: true, TSO: true, Client: strings.Contains(devargs, "server=1")}, port.Config{})
			p := startTestpmd(t, "net_virtio_user0,path="+r.path+",queues=1,"+devargs, "--forward-mode=txonly")
			p.say("start")
			eventually(t, "the link", func() bool { return r.port.Link().Up })
			var pkts [32]*mbuf.Buf
			received := 0
			eventually(t, "5000 frames", func() bool {
				n := r.port.RxQueue(0).Burst(pkts[:])
				received += n
				for _, b := range pkts[:n] {
					if b.PacketLen() != 64 || b.Flags != 0 {
						t.Fatalf("%d bytes, flags %#x", b.PacketLen(), b.Flags)
					}
					b.Free()
				}
				return received >= 5000
			})
			p.say("stop")
			p.await(`TX-packets: (\d+) `, 1)
			p.say("set fwd rxonly")
			p.say("clear port stats all")
			p.say("start")
			p.await("rxonly packet forwarding packets/burst", 1)
			sent := 0
			eventually(t, "5000 frames sent", func() bool {
				n := 0
				for ; n < len(pkts) && sent+n < 5000; n++ {
					pkts[n] = packetOf(t, r.pool, frameOf(sent+n, 60+(sent+n)%1400), 2048)
				}
				took := r.port.TxQueue(0).Burst(pkts[:n])
				for _, b := range pkts[took:n] {
					b.Free()
				}
				sent += took
				return sent == 5000
			})
			want := 0
			for i := range sent {
				want += 60 + i%1400
			}
			for limit := time.Now().Add(20 * time.Second); ; {
				p.say("show port stats 0")
				shown := p.await(`RX-packets: (\d+) +RX-missed: \d+ +RX-bytes: +(\d+)`, 1)
				packets, _ := strconv.Atoi(shown[1])
				if packets == sent {
					if shown[2] != fmt.Sprint(want) {
						t.Errorf("%s bytes were received, want %d", shown[2], want)
					}
					break
				}
				if time.Now().After(limit) {
					t.Fatalf("%d of %d packets were received", packets, sent)
				}
				time.Sleep(20 * time.Millisecond)
			}
			if s := r.port.Stats(); s.RxPackets != uint64(received) || s.TxPackets != uint64(sent) || s.RxErrors+s.TxErrors != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}
