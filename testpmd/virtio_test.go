package testpmd

import (
	"strings"
	"testing"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/virtio"
)

// virtioBench is a bench of one started port of the virtio driver, whose device
// has all that the console can switch.
func virtioBench(t *testing.T) *bench {
	features := fakedev.DefaultFeatures | virtio.NetCtrlVQ | virtio.NetCtrlRx | virtio.NetCtrlVLAN | virtio.NetCtrlMACAddr | virtio.NetMQ | virtio.NetRSS
	return startedBench(t, 1, func(c *Config) {
		twoQueues(c)
		p, err := driver.Open(fakedev.New(fakedev.Config{Offered: features, Pairs: 2}), driver.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		c.Ports[0] = p
	})
}

// TestConsoleOnVirtio holds the commands that reach into the device on the driver
// itself.
func TestConsoleOnVirtio(t *testing.T) {
	b := virtioBench(t)
	key := strings.Repeat("A5", 40)
	b.check(t, `testpmd> port 0 rxq 1 stop
testpmd> port 0 rxq 1 start
testpmd> set promisc 0 on
testpmd> set allmulti 0 on
testpmd> mac_addr add 0 02:00:00:00:00:01
testpmd> mac_addr add 0 02:00:00:00:00:01
testpmd> mac_addr set 0 02:00:00:00:00:02
testpmd> show port 0 macs
Number of MAC address added: 2
  02:00:00:00:00:02
  02:00:00:00:00:01
testpmd> mac_addr remove 0 02:00:00:00:00:02
Port 0: Cannot remove default MAC address
mac_addr_cmd error: (Address already in use)
testpmd> mac_addr add 0 01:00:00:00:00:02
mac_addr_cmd error: (Invalid argument)
testpmd> mcast_addr add 0 01:00:5E:00:00:01
testpmd> mcast_addr add 0 01:00:5E:00:00:02
testpmd> mcast_addr remove 0 01:00:5E:00:00:01
testpmd> show port 0 mcast_macs
Number of Multicast MAC address added: 1
  01:00:5E:00:00:02
testpmd> vlan set filter on 0
testpmd> rx_vlan add 10 0
testpmd> rx_vlan rm all 0
testpmd> vlan set filter off 0
testpmd> rx_vlan add 10 0
Port 0: VLAN-filtering disabled
rte_eth_dev_vlan_filter(port_pi=0, vlan_id=10, on=1) failed diag=-38
testpmd> port config all rss udp
rss_hf 0x20820
testpmd> port config 0 rss-hash-key ipv4 `+key+`
testpmd> show port 0 rss-hash key
RSS functions:
  ipv4-udp  ipv6-udp  ipv6-udp-ex
RSS key:
`+key+`
testpmd> port config 0 rss reta (0,1),(127,0)
The reta size of port 0 is 128
testpmd> show port 0 rss reta 128 (0x3,0xc000000000000000)
RSS RETA configuration: hash index=0, queue=1
RSS RETA configuration: hash index=1, queue=1
RSS RETA configuration: hash index=126, queue=0
RSS RETA configuration: hash index=127, queue=0
testpmd> port config mtu 0 1400
testpmd> show port 0 rss-hash
RSS functions:
  ipv4-udp  ipv6-udp  ipv6-udp-ex
testpmd> port config 0 rxq 0 ring_size 64
testpmd> port config 0 rxq 1 ring_size 64
testpmd> port 0 rxq 0 setup
`)
	if out := b.run("show rxq info 0 1"); !strings.Contains(out, "\nNumber of RXDs: 64\n") {
		t.Errorf("%s", out)
	}
	if out := b.run("show port info 0"); !strings.Contains(out, "\nMTU: 1400\n") || !strings.Contains(out, "\nPromiscuous mode: enabled\nAllmulticast mode: enabled\n") || !strings.Contains(out, "\nMAC address: 02:00:00:00:00:02\n") {
		t.Errorf("%s", out)
	}
	if out := b.run("show port 0 features"); !strings.Contains(out, "\n  Negotiated : ") || !strings.Contains(out, " RSS") {
		t.Errorf("%s", out)
	}
	b.run("port stop 0", "port config all txfreet 16", "port reset 0", "port start 0", "start tx_first", "stop", "port stop 0", "port close 0")
	if b.pool.Free() != b.pool.Size() {
		t.Errorf("%d of %d buffers are back", b.pool.Free(), b.pool.Size())
	}
}
