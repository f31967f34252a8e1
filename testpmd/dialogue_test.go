package testpmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/port"
)

// check runs the commands in want and compares the whole session.
func (b *bench) check(t *testing.T, want string) {
	t.Helper()
	if diff := cmp.Diff(want, b.session(want)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOffloadDialogue(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.run("port stop 0")
	b.check(t, `testpmd> port start 0
virtio: using mergeable buffer Rx path on port 0
virtio: using simple Tx path on port 0
Port 0: 52:54:00:58:D7:01
Checking link statuses...
Done
testpmd> show port 0 tx_offload capabilities
Tx Offloading Capabilities of port 0 :
  Per Queue :
  Per Port  : VLAN_INSERT UDP_CKSUM TCP_CKSUM TCP_TSO MULTI_SEGS

testpmd> show port 0 tx_offload configuration
Tx Offloading Configuration of port 0 :
  Port :
  Queue[ 0] :

testpmd> port stop 0
Stopping ports...
Checking link statuses...
Done
testpmd> csum set tcp hw 0
Parse tunnel is off
IP checksum offload is sw
UDP checksum offload is sw
TCP checksum offload is hw
SCTP checksum offload is sw
Outer-Ip checksum offload is sw
Outer-Udp checksum offload is sw
testpmd> show port 0 tx_offload configuration
Tx Offloading Configuration of port 0 :
  Port :
  Queue[ 0] : TCP_CKSUM

testpmd> port start 0
Configuring Port 0 (socket 0)
virtio: using mergeable buffer Rx path on port 0
virtio: using standard Tx path on port 0
Port 0: 52:54:00:58:D7:01
Checking link statuses...
Done
testpmd> show port 0 tx_offload configuration
Tx Offloading Configuration of port 0 :
  Port : TCP_CKSUM
  Queue[ 0] : TCP_CKSUM

`)
}

func TestChecksumAndTSOCommands(t *testing.T) {
	b := startedBench(t, 1, func(c *Config) { c.Options.RxQueues, c.Options.TxQueues = 2, 2 })
	b.check(t, `testpmd> csum show 0
Please stop port 0 first
testpmd> csum set tcp hw 0
Please stop port 0 first
testpmd> port stop 0
Stopping ports...
Checking link statuses...
Done
testpmd> csum set udp hw 0
Parse tunnel is off
IP checksum offload is sw
UDP checksum offload is hw
TCP checksum offload is sw
SCTP checksum offload is sw
Outer-Ip checksum offload is sw
Outer-Udp checksum offload is sw
testpmd> csum set ip hw 0
IP checksum offload is not supported by port 0
Parse tunnel is off
IP checksum offload is sw
UDP checksum offload is hw
TCP checksum offload is sw
SCTP checksum offload is sw
Outer-Ip checksum offload is sw
Outer-Udp checksum offload is sw
testpmd> csum set udp sw 0
Parse tunnel is off
IP checksum offload is sw
UDP checksum offload is sw
TCP checksum offload is sw
SCTP checksum offload is sw
Outer-Ip checksum offload is sw
Outer-Udp checksum offload is sw
testpmd> csum set foo hw 0
Bad arguments
testpmd> csum set tcp hw 7
Invalid port 7
invalid port 7
testpmd> csum parse-tunnel on 0
Parse tunnel is on
IP checksum offload is sw
UDP checksum offload is sw
TCP checksum offload is sw
SCTP checksum offload is sw
Outer-Ip checksum offload is sw
Outer-Udp checksum offload is sw
testpmd> csum mac-swap off 0
testpmd> tso set 1400 0
TSO segment size for non-tunneled packets is 1400
testpmd> tso show 0
TSO segment size for non-tunneled packets is 1400
testpmd> show port 0 tx_offload configuration
Tx Offloading Configuration of port 0 :
  Port :
  Queue[ 0] : TCP_TSO
  Queue[ 1] : TCP_TSO

testpmd> tso set 0 0
TSO for non-tunneled packets is disabled
testpmd> tso show 7
Invalid port 7
`)
	b.fakes[0].info.TxCapa &^= port.TxTCPTSO
	b.check(t, `testpmd> tso set 1400 0
Error: TSO is not supported by port 0
testpmd> tso show 0
TSO for non-tunneled packets is disabled
`)
}

func TestOffloadThatIsNotThere(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> port config 0 rx_offload vlan_filter on
Error: Can't config offload when Port 0 is not stopped
testpmd> port stop 0
Stopping ports...
Checking link statuses...
Done
testpmd> port config 0 rx_offload scatter on
testpmd> port config 0 rx_offload vlan_filter on
testpmd> port config 0 rx_offload nonsense on
Bad arguments
testpmd> port config 7 tx_offload tcp_cksum on
Invalid port_id=7
Error during getting device (port 7) info: No such device
testpmd> port start 0
Configuring Port 0 (socket 0)
Ethdev port_id=0 requested Rx offloads 0x2200 doesn't match Rx offloads capabilities 0x201d in rte_eth_dev_configure()
Fail to configure port 0
testpmd> start
Not all ports were started
testpmd> show port 0 rx_offload configuration
Rx Offloading Configuration of port 0 :
  Port :
  Queue[ 0] : VLAN_FILTER SCATTER

testpmd> port config 0 rx_offload vlan_filter off
testpmd> port start 0
Configuring Port 0 (socket 0)
virtio: using mergeable buffer Rx path on port 0
virtio: using simple Tx path on port 0
Port 0: 52:54:00:58:D7:01
Checking link statuses...
Done
testpmd> show port 0 rx_offload configuration
Rx Offloading Configuration of port 0 :
  Port : SCATTER
  Queue[ 0] : SCATTER

testpmd> port stop 0
Stopping ports...
Checking link statuses...
Done
testpmd> port 0 txq 0 tx_offload tcp_cksum on
testpmd> port 0 txq 7 tx_offload tcp_cksum on
Error: input queue_id should be 0 ... 0
testpmd> port start 0
Configuring Port 0 (socket 0)
Ethdev port_id=0 tx_queue_id=0, new added offloads 0x8 must be within per-queue offload capabilities 0x0 in rte_eth_tx_queue_setup()
Fail to configure port 0 tx queues
testpmd> port 0 txq 0 tx_offload tcp_cksum off
testpmd> port start 0
virtio: using mergeable buffer Rx path on port 0
virtio: using simple Tx path on port 0
Port 0: 52:54:00:58:D7:01
Checking link statuses...
Done
testpmd> port config 0 tx_offload multi_segs on
Error: Can't config offload when Port 0 is not stopped
`)
}

func TestPortStates(t *testing.T) {
	b := newBench(t, 2, nil)
	b.check(t, `testpmd> start
Not all ports were started
testpmd> port start 7
Invalid port 7
testpmd> port start 1
Configuring Port 1 (socket 0)
virtio: using mergeable buffer Rx path on port 1
virtio: using simple Tx path on port 1
Port 1: 52:54:00:58:D7:02
Checking link statuses...
Done
testpmd> port start all
Configuring Port 0 (socket 0)
virtio: using mergeable buffer Rx path on port 0
virtio: using simple Tx path on port 0
Port 0: 52:54:00:58:D7:01
Port 1 is now not stopped
Checking link statuses...
Done
testpmd> port start 0
Port 0 is now not stopped
Please stop the ports first
Done
testpmd> port close 1
Closing ports...
Cannot close started device (port 1)
Done
testpmd> port stop 1
Stopping ports...
Checking link statuses...
Done
testpmd> port stop 1
Stopping ports...
Done
testpmd> start
Not all ports were started
testpmd> port close 1
Closing ports...
Port 1 is closed
Done
testpmd> port start 1
Invalid port 1
testpmd> show port info 1
Invalid port 1
The valid ports array is [ 0 ]
testpmd> show port summary all
Number of available ports: 1
Port MAC Address       Name         Driver         Status   Link
0    52:54:00:58:D7:01 net_virtio_user0 net_virtio_user up       Unknown
testpmd> show port 0 path
Rx path of port 0 : mergeable
  Reason : the device offers mergeable buffers
  Simpler : mrg_rxbuf=0
Tx path of port 0 : simple
  Reason : no transmit offload is on
  Simpler : there is none
testpmd> port config all rxq 2
Please stop all ports first
testpmd> set portlist 1
Invalid port 1
`)
}

func TestShowPortInfo(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> show port info 0

********************* Infos for port 0  *********************
MAC address: 52:54:00:58:D7:01
Device name: net_virtio_user0
Driver name: net_virtio_user
Firmware-version: not available
Devargs: path=/tmp/x.sock
Connect to socket: 0
memory allocation on the socket: 0
Link status: up
Link speed: Unknown
Link duplex: full-duplex
Autoneg status: On
MTU: 1500
Promiscuous mode: disabled
Allmulticast mode: disabled
Maximum number of MAC addresses: 64
Maximum number of MAC addresses of hash filtering: 0
VLAN offload: 
  strip off, filter off, extend off, qinq strip off
No RSS offload flow type is supported.
Minimum size of RX buffer: 64
Maximum configurable length of RX packet: 9728
Maximum configurable size of LRO aggregated packet: 0
Current number of RX queues: 1
Max possible RX queues: 2
Max possible number of RXDs per queue: 32768
Min possible number of RXDs per queue: 32
RXDs number alignment: 1
Current number of TX queues: 1
Max possible TX queues: 2
Max possible number of TXDs per queue: 32768
Min possible number of TXDs per queue: 32
TXDs number alignment: 1
Max segment number per packet: 65535
Max segment number per MTU/TSO: 65535
Device capabilities: 0x0( )
Device error handling mode: none
testpmd> show port info 7
Invalid port 7
The valid ports array is [ 0 ]
testpmd> show port stats 0

  ######################## NIC statistics for port 0  ########################
  RX-packets: 0          RX-missed: 0          RX-bytes:  0
  RX-errors: 0
  RX-nombuf:  0         
  TX-packets: 0          TX-errors: 0          TX-bytes:  0

  Throughput (since last show)
  Rx-pps:            0          Rx-bps:            0
  Tx-pps:            0          Tx-bps:            0
  ############################################################################
testpmd> clear port stats 0

  NIC statistics for port 0 cleared
testpmd> clear port stats 7
Invalid port 7
The valid ports array is [ 0 ]
`)
}

func TestForwardDialogue(t *testing.T) {
	b := startedBench(t, 1, func(c *Config) { c.Options.FlushRx = false })
	b.check(t, `testpmd> set fwd macswap
Set macswap packet forwarding mode
testpmd> start
macswap packet forwarding - ports=1 - cores=1 - streams=1 - NUMA support enabled, MP allocation mode: native
Logical Core 1 (socket 0) forwards packets on 1 streams:
  RX P=0/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:00:00:00:00:00

  macswap packet forwarding packets/burst=32
  nb forwarding cores=1 - nb forwarding ports=1
  port 0: RX queue number: 1 Tx queue number: 1
    Rx offloads=0x0 Tx offloads=0x0
    RX queue: 0
      RX desc=0 - RX free threshold=0
      RX threshold registers: pthresh=0 hthresh=0  wthresh=0
      RX Offloads=0x0
    TX queue: 0
      TX desc=0 - TX free threshold=0
      TX threshold registers: pthresh=0 hthresh=0  wthresh=0
      TX offloads=0x0 - TX RS bit threshold=0
testpmd> start
Packet forwarding already started
testpmd> port stop 0
Stopping ports...
Please remove port 0 from forwarding configuration.
Done
testpmd> port close 0
Closing ports...
Please remove port 0 from forwarding configuration.
Done
testpmd> stop
Telling cores to stop...
Waiting for lcores to finish...

  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 0              RX-dropped: 0             RX-total: 0
  TX-packets: 0              TX-dropped: 0             TX-total: 0
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 0              RX-dropped: 0             RX-total: 0
  TX-packets: 0              TX-dropped: 0             TX-total: 0
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++

Done.
testpmd> stop
Packet forwarding not started
testpmd> set fwd io retry
Set io packet forwarding mode with retry
testpmd> show config fwd
io packet forwarding with retry - ports=1 - cores=1 - streams=1 - NUMA support enabled, MP allocation mode: native
TX retry num: 64, delay between TX retries: 1us
Logical Core 1 (socket 0) forwards packets on 1 streams:
  RX P=0/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:00:00:00:00:00

testpmd> show config cores
List of forwarding lcores:  1
testpmd> set txpkts 64,64
testpmd> show config txpkts
Number of segments: 2
Segment sizes: 64,64
Split packet: off
`)
}

func TestHelp(t *testing.T) {
	b := newBench(t, 0, nil)
	b.check(t, `testpmd> help

Help is available for the following sections:

    help control                    : Start and stop forwarding.
    help display                    : Displaying port, stats and config information.
    help config                     : Configuration information.
    help ports                      : Configuring ports.
    help filters                    : Filters configuration help.
    help traffic_management         : Traffic Management commands.
    help devices                    : Device related commands.
    help drivers                    : Driver specific commands.
    help all                        : All of the above sections.

`)
	// What is ours stands behind what is testpmd's.
	want := `
Control forwarding:
-------------------

start
    Start packet forwarding with current configuration.

start tx_first
    Start packet forwarding with current config after sending one burst of packets.

stop
    Stop packet forwarding, and display accumulated statistics.

quit
    Quit to prompt.

`
	if got := b.run("help control"); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	b.check(t, `testpmd> help nonsense
Bad arguments
`)
}
