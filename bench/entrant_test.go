package bench

import (
	"strings"
	"testing"

	"vionet/bench/report"
)

// The command lines have what the coordinates say, and DPDK is allowed 512 bits where
// it is to be vectorized.
func TestGuestCommands(t *testing.T) {
	for _, c := range []struct {
		ring                string
		who                 int // of the fronts
		mergeable, offloads bool
		tx                  string
		want, none          string // words
	}{
		{"split", 0, true, false, simpleTx, "mrg_rxbuf=1,packed_vq=0,in_order=0 dpdk-testpmd", "vectorized tx-offloads rx-offloads simd"},
		{"packed-inorder", 0, false, false, standardTx, "mrg_rxbuf=0,packed_vq=1,in_order=1 --tx-offloads=0x8", "vectorized rx-offloads simd"},
		{"packed-vec", 0, false, false, simpleTx, "packed_vq=1,in_order=1,vectorized=1 --force-max-simd-bitwidth=512", "tx-offloads"},
		{"packed-vec", 1, false, false, simpleTx, "packed_vq=1,in_order=1 testpmd", "vectorized simd dpdk"},
		{"split", 1, true, true, standardTx, "--tx-offloads=0x8 --rx-offloads=0x8 --rxq=1", "simd"},
	} {
		at := withRing(base, c.ring)
		at.Mergeable, at.Offloads, at.Tx = c.mergeable, c.offloads, c.tx
		line := strings.Join(fronts[c.who].entrant(pvp, at).guestCommand("/bin/vionet", "/d", "1", 1), " ")
		for _, word := range strings.Fields(c.want) {
			if !strings.Contains(line, word) {
				t.Errorf("%s of %s lacks %q: %s", c.ring, fronts[c.who].name, word, line)
			}
		}
		for _, word := range strings.Fields(c.none) {
			if strings.Contains(line, word) {
				t.Errorf("%s of %s has %q: %s", c.ring, fronts[c.who].name, word, line)
			}
		}
	}
}

// A host has the guests' ports first and then its wires, and the right one is chosen.
func TestWires(t *testing.T) {
	l := load{topology: pvp, size: 1400, burst: 8}
	wires := []int{64, 1400}
	line := strings.Join(hosts[1].entrant(pvp, base).hostCommand("/bin/vionet", "/d", "1", 0, wires), " ")
	if vhost, null := strings.Index(line, "net_vhost0,iface=/d/10.sock,queues=1"), strings.Index(line, "net_null1,size=1400"); vhost < 0 || null < vhost {
		t.Errorf("the command line is %s", line)
	}
	lines := strings.Join(l.hostLines(wirePort(l, wires)), "; ")
	if want := "set fwd io; set txpkts 1400; set burst 8; set portlist 0,2; set flush_rx off"; lines != want {
		t.Errorf("%q, want %q", lines, want)
	}
	l.topology = loopback
	if got := l.startHost(); got != "start tx_first 32" {
		t.Errorf("256 frames go round after %q", got)
	}
}

// What only a console decides makes no other entrant.
func TestEntrantsServeManyLoads(t *testing.T) {
	at := report.Coordinates{Ring: "split", Size: 64, Burst: 32, Queues: 1}
	other := report.Coordinates{Topology: "pvp", Ring: "split", Size: 1400, Burst: 1, Queues: 1}
	if fronts[0].entrant(loopback, at) != fronts[0].entrant(pvp, other) {
		t.Error("a size or a burst makes another entrant")
	}
	if fronts[0].entrant(pvp, at) != hosts[0].entrant(pvp, at) {
		t.Error("DPDK on both ends is not the same for both comparisons")
	}
	other.Queues = 2
	if fronts[0].entrant(loopback, at) == fronts[0].entrant(pvp, other) {
		t.Error("two queues make no other entrant")
	}
}
