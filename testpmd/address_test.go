package testpmd

import (
	"testing"

	"vionet/port"
)

func TestAddresses(t *testing.T) {
	b, rich := richBench(t, nil)
	b.check(t, `testpmd> mac_addr add 0 02:00:00:00:00:01
testpmd> mac_addr add 0 02:00:00:00:00:01
testpmd> mac_addr add 0 00:00:00:00:00:00
Port 0: Cannot add NULL MAC address
mac_addr_cmd error: (Invalid argument)
testpmd> mac_addr add 9 02:00:00:00:00:01
Invalid port_id=9
mac_addr_cmd error: (No such device)
testpmd> mac_addr add 0 02:00
Bad arguments
testpmd> show port 0 macs
Number of MAC address added: 2
  52:54:00:58:D7:01
  02:00:00:00:00:01
testpmd> mac_addr remove 0 02:00:00:00:00:01
testpmd> mac_addr remove 0 02:00:00:00:00:01
testpmd> mac_addr remove 0 52:54:00:58:D7:01
Port 0: Cannot remove default MAC address
mac_addr_cmd error: (Address already in use)
testpmd> mac_addr set 0 02:00:00:00:00:07
testpmd> mac_addr set 0 01:00:00:00:00:07
mac_addr_cmd error: (Invalid argument)
testpmd> mac_addr set 9 02:00:00:00:00:07
Invalid port_id=9
mac_addr_cmd error: (No such device)
testpmd> show port 0 macs
Number of MAC address added: 1
  02:00:00:00:00:07
testpmd> show port 9 macs
Invalid port 9
testpmd> show port 0 mcast_macs
Number of Multicast MAC address added: 0
testpmd> mcast_addr add 0 01:00:5E:00:00:01
testpmd> mcast_addr add 0 01:00:5E:00:00:01
multicast address already filtered by port
testpmd> mcast_addr add 0 01:00:5e:00:00:02
testpmd> mcast_addr add 0 02:00:5E:00:00:01
Invalid multicast addr 02:00:5E:00:00:01
testpmd> mcast_addr add 9 01:00:5E:00:00:01
Invalid port 9
testpmd> show port 0 mcast_macs
Number of Multicast MAC address added: 2
  01:00:5E:00:00:01
  01:00:5E:00:00:02
testpmd> mcast_addr remove 0 01:00:5E:00:00:09
multicast address not filtered by port 0
testpmd> mcast_addr remove 0 01:00:5E:00:00:01
testpmd> show port 0 mcast_macs
Number of Multicast MAC address added: 1
  01:00:5E:00:00:02
testpmd> mcast_addr flush 0
testpmd> show port 0 mcast_macs
Number of Multicast MAC address added: 0
`)
	rich.missing = port.ErrNotSupported
	b.check(t, `testpmd> mac_addr add 0 02:00:00:00:00:01
mac_addr_cmd error: (Operation not permitted)
testpmd> mcast_addr add 0 01:00:5E:00:00:01
rte_eth_dev_set_mc_addr_list(port=0, nb=1) failed. diag=-95
`)
}

func TestAddressesOfAPlainPort(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> mac_addr add 0 02:00:00:00:00:01
mac_addr_cmd error: (Operation not supported)
testpmd> mac_addr set 0 02:00:00:00:00:01
mac_addr_cmd error: (Operation not supported)
testpmd> show port 0 macs
Number of MAC address added: 1
  52:54:00:58:D7:01
testpmd> mcast_addr add 0 01:00:5E:00:00:01
rte_eth_dev_set_mc_addr_list(port=0, nb=1) failed. diag=-95
testpmd> mcast_addr remove 0 01:00:5E:00:00:01
multicast address not filtered by port 0
testpmd> set allmulti 0 on
Error during enabling all-multicast mode for port 0: Operation not supported
testpmd> set link-up port 0

Set link up fail.
testpmd> set link-down port 9
Invalid port_id=9

Set link down fail.
`)
}

func TestTooManyAddresses(t *testing.T) {
	b, rich := richBench(t, nil)
	rich.info.MaxMACs = 2
	b.check(t, `testpmd> mac_addr add 0 02:00:00:00:00:01
testpmd> mac_addr add 0 02:00:00:00:00:02
mac_addr_cmd error: (No space left on device)
`)
}

func TestVLANCommands(t *testing.T) {
	b, rich := richBench(t, nil)
	rich.calls = nil
	b.check(t, `testpmd> rx_vlan add 10 0
Port 0: VLAN-filtering disabled
rte_eth_dev_vlan_filter(port_pi=0, vlan_id=10, on=1) failed diag=-38
testpmd> rx_vlan rm all 0
Port 0: VLAN-filtering disabled
rte_eth_dev_vlan_filter(port_pi=0, vlan_id=0, on=0) failed diag=-38
testpmd> vlan set extend on 0
Ethdev port_id=0 requested new added VLAN offloads 0x400 must be within Rx offloads capabilities 0x221d in rte_eth_dev_set_vlan_offload()
rx_vlan_extend_set(port_pi=0, on=1) failed diag=-22
testpmd> vlan set extend off 0
testpmd> vlan set qinq_strip off 0
testpmd> vlan set strip on 9
Invalid port 9
testpmd> vlan set stripq on 0,0
rx_vlan_strip_set_on_queue(port_pi=0, queue_id=0, on=1) failed diag=-95
testpmd> vlan set stripq on 0,9
Invalid rx_queue_id=9
rx_vlan_strip_set_on_queue(port_pi=0, queue_id=9, on=1) failed diag=-22
testpmd> vlan set stripq on 9,0
Invalid port 9
testpmd> vlan set stripq on 0
must specify (port,queue_id)
testpmd> vlan set outer tpid 0x88a8 0
tx_vlan_tpid_set(port_pi=0, vlan_type=2, tpid=34984) failed diag=-95
testpmd> vlan set inner tpid 0x8100 0
tx_vlan_tpid_set(port_pi=0, vlan_type=1, tpid=33024) failed diag=-95
testpmd> tx_vlan set 0 5
Please stop port 0 first
testpmd> tx_vlan reset 9
Invalid port 9
testpmd> tx_vlan set pvid 0 4096 on
Invalid vlan_id 4096 (must be < 4096)
`)
	if len(rich.calls) != 0 {
		t.Errorf("refused commands made the port %v", rich.calls)
	}
	// What the last start did not enable takes a restart; what it did, none.
	b.check(t, `testpmd> vlan set strip on 0
virtio: using mergeable buffer Rx path on port 0
virtio: using simple Tx path on port 0
testpmd> vlan set strip on 0
testpmd> vlan set strip off 0
testpmd> vlan set filter on 0
virtio: using mergeable buffer Rx path on port 0
virtio: using simple Tx path on port 0
testpmd> show port 0 rx_offload configuration
Rx Offloading Configuration of port 0 :
  Port : VLAN_FILTER
  Queue[ 0] :

testpmd> rx_vlan add 10 0
testpmd> rx_vlan add 4096 0
Invalid vlan_id 4096 (must be < 4096)
testpmd> rx_vlan add 10 9
Invalid port 9
`)
	if !rich.vlans[10] || len(rich.vlans) != 1 {
		t.Errorf("VLANs %v", rich.vlans)
	}
	b.run("rx_vlan add all 0")
	if len(rich.vlans) != 4096 {
		t.Errorf("%d VLANs after all were added", len(rich.vlans))
	}
	b.run("rx_vlan rm all 0")
	if len(rich.vlans) != 0 {
		t.Errorf("%d VLANs after all were removed", len(rich.vlans))
	}
	b.run("start")
	b.check(t, `testpmd> vlan set strip on 0
please stop forwarding first
rx_vlan_strip_set(port_pi=0, on=1) failed diag=-16
`)
	b.run("stop")
}

func TestTxVLANNeedsTheOffload(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.run("port stop 0")
	b.check(t, `testpmd> tx_vlan set 0 5000 6
Invalid vlan_id 5000 (must be < 4096)
testpmd> tx_vlan set 0 5 6
Error: qinq insert not supported by port 0
testpmd> tx_vlan set pvid 0 7 on
testpmd> show port 0 tx_offload configuration
Tx Offloading Configuration of port 0 :
  Port :
  Queue[ 0] : VLAN_INSERT

testpmd> tx_vlan set pvid 0 7 off
testpmd> show port 0 tx_offload configuration
Tx Offloading Configuration of port 0 :
  Port :
  Queue[ 0] :

`)
	b.fakes[0].info.TxCapa &^= port.TxVLANInsert
	b.check(t, `testpmd> tx_vlan set 0 5
Error: vlan insert is not supported by port 0
`)
}

func TestFeaturesAndModes(t *testing.T) {
	b, rich := richBench(t, nil)
	b.check(t, `testpmd> show port 0 features
Features of port 0 :
  Offered    : CSUM MRG_RXBUF VERSION_1
  Asked for  : MRG_RXBUF VERSION_1 RING_PACKED
  Negotiated : MRG_RXBUF VERSION_1
testpmd> show port 9 features
Invalid port 9
The valid ports array is [ 0 ]
testpmd> set allmulti 0 on
testpmd> set allmulti 9 on
Invalid port_id=9
Error during enabling all-multicast mode for port 9: No such device
`)
	if !rich.allMulticast {
		t.Error("all-multicast mode is off")
	}
	plain := startedBench(t, 1, nil)
	plain.check(t, `testpmd> show port 0 features
Port 0 has no features of virtio
`)
}
