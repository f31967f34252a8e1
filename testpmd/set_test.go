package testpmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMasks(t *testing.T) {
	b := startedBench(t, 2, nil)
	b.check(t, `testpmd> set portmask 0x1
previous number of forwarding ports 2 - changed to number of configured ports 1
testpmd> set portmask 7
previous number of forwarding ports 1 - changed to number of configured ports 2
testpmd> set portmask 0
Invalid NULL mask of ports
testpmd> set portmask 0x8
Invalid port 3
testpmd> set portmask zz
Bad arguments
testpmd> set coremask 0x6
previous number of forwarding cores 1 - changed to number of configured cores 2
testpmd> set coremask 0x1
lcore 0 cannot be masked on for running packet forwarding, which is the main lcore and reserved for command line parsing only
testpmd> set coremask 0x8
lcore 3 not enabled
testpmd> set coremask 0
Invalid NULL mask of cores
testpmd> show config cores
List of forwarding lcores:  1 2
testpmd> set corelist a
character a is not a decimal digit
testpmd> set portlist 0-1
character - is not a decimal digit
testpmd> set portlist 70000
Invalid port 70000
testpmd> set eth-peer 0 02:11:22:33:44:55
testpmd> set default
Reset to default forwarding configuration...
testpmd> show config fwd
io packet forwarding - ports=2 - cores=1 - streams=2 - NUMA support enabled, MP allocation mode: native
Logical Core 1 (socket 0) forwards packets on 2 streams:
  RX P=0/Q=0 (socket 0) -> TX P=1/Q=0 (socket 0) peer=02:00:00:00:00:01
  RX P=1/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:00:00:00:00:00

`)
}

func TestSegments(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> show config rxpkts
Number of segments: 0
testpmd> show config rxhdrs
Number of segments: 0
testpmd> set rxpkts 64,128
testpmd> show config rxpkts
Number of segments: 2
Segment sizes: 64,128
testpmd> set rxpkts 70000
length[0]=70000 > UINT16_MAX - give up
testpmd> set rxoffs 10,20
testpmd> show config rxoffs
Number of offsets: 2
Segment offsets: 10,20
testpmd> set txtimes 1,2
testpmd> show config txtimes
Interburst gap: 1
Intraburst gap: 2
testpmd> set txtimes 1,2,3
Number of tx times = 3 > 2 (maximum items)
testpmd> set txtimes a
character a is not a decimal digit
testpmd> set txsplit rand
testpmd> set txsplit foo
unknown value: "foo"
testpmd> show config txpkts
Number of segments: 1
Segment sizes: 64
Split packet: rand
testpmd> set txpkts 3000
length[0]=3000 > mbuf_data_size=2048 - give up
testpmd> set txpkts 0
total packet length=0 < 42 - give up
testpmd> set txpkts 64,0
length[1]=0 < 1 - give up
`)
}

func TestThresholds(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.fakes[0].info.TxDesc = 256
	b.check(t, `testpmd> port config all txfreet 32
Please stop all ports first
testpmd> port config all drop-en on
Please stop all ports first
testpmd> port config 0 speed 1000 duplex full
Please stop port 0 first
testpmd> port config all speed auto duplex auto
Please stop all ports first
testpmd> port config all max-pkt-len 1600
Please stop all ports first
`)
	b.run("port stop 0")
	b.check(t, `testpmd> port config all txfreet 256
txfreet 256 invalid - must be < 256 (number of TXDs of port 0)
testpmd> port config all txfreet 32
testpmd> port config all txfreet 70000
txfreet 70000 invalid - must be >= 0 && <= 65535
testpmd> port config all rxfreet 16
testpmd> port config all txrst 8
testpmd> port config all txpt 3
testpmd> port config all txht 300
txht 300 invalid - must be >= 0 && <= 255
testpmd> port config all rxwt 4
testpmd> port config all drop-en on
testpmd> port config 0 speed 1000 duplex full
testpmd> port config all speed auto duplex auto
testpmd> port config 0 speed 1000 duplex half
Invalid speed/duplex parameters
testpmd> port config 0 speed 123 duplex full
Bad arguments
testpmd> port config 9 speed 1000 duplex full
Invalid port 9
testpmd> port config all max-pkt-len 60
max-pkt-len can not be less than 64
testpmd> port config all max-pkt-len 9729
max-pkt-len 9729 > max_rx_pktlen (9728) of port 0
testpmd> port config all max-pkt-len 97
MTU (67) < device min MTU (68) for port_id 0
testpmd> port config all max-pkt-len 9000
testpmd> port config all max-lro-pkt-size 1600
testpmd> show config rxtx
  io packet forwarding packets/burst=32
  nb forwarding cores=1 - nb forwarding ports=1
  port 0: RX queue number: 1 Tx queue number: 1
    Rx offloads=0x0 Tx offloads=0x0
    RX queue: 0
      RX desc=0 - RX free threshold=16
      RX threshold registers: pthresh=0 hthresh=0  wthresh=4
      RX Offloads=0x0
    TX queue: 0
      TX desc=0 - TX free threshold=32
      TX threshold registers: pthresh=3 hthresh=0  wthresh=0
      TX offloads=0x0 - TX RS bit threshold=8
`)
	b.run("port start 0")
	if cfg := b.fakes[0].conf; cfg.MTU != 8970 || cfg.TxFreeThresh != 32 {
		t.Errorf("MTU %d, free threshold %d", cfg.MTU, cfg.TxFreeThresh)
	}
}

// TestStreamsOverCores shares 24 streams of two ports with twelve queues among
// three cores, as DPDK does: eight each, queue by queue.
func TestStreamsOverCores(t *testing.T) {
	b := newBench(t, 2, func(c *Config) {
		c.Cores = []Core{{ID: 1}, {ID: 2}, {ID: 3}}
		c.Options.NbCores, c.Options.RxQueues, c.Options.TxQueues = 3, 12, 12
	})
	var want strings.Builder
	want.WriteString("io packet forwarding - ports=2 - cores=3 - streams=24 - NUMA support enabled, MP allocation mode: native\n")
	for core := range 3 {
		fmt.Fprintf(&want, "Logical Core %d (socket 0) forwards packets on 8 streams:\n", core+1)
		for q := 4 * core; q < 4*core+4; q++ {
			fmt.Fprintf(&want, "  RX P=0/Q=%d (socket 0) -> TX P=1/Q=%d (socket 0) peer=02:00:00:00:00:01\n", q, q)
			fmt.Fprintf(&want, "  RX P=1/Q=%d (socket 0) -> TX P=0/Q=%d (socket 0) peer=02:00:00:00:00:00\n", q, q)
		}
	}
	if got := b.run("show config fwd"); got != want.String()+"\n" {
		t.Errorf("%s", got)
	}
}

func TestLoadEcho(t *testing.T) {
	b := startedBench(t, 1, nil)
	dir := t.TempDir()
	file := filepath.Join(dir, "commands")
	os.WriteFile(file, []byte("show config cores\nfoo bar\n# comment\n"), 0o600)
	want := "testpmd> show config cores\nList of forwarding lcores:  1\ntestpmd> foo bar\n" + file + ":2: Command not found\ntestpmd> # comment\nRead CLI commands from " + file + "\n"
	if got := b.run("load_echo " + file); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestUglyFiles loads what is no text.
func TestUglyFiles(t *testing.T) {
	b := startedBench(t, 1, nil)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty":    "",
		"binary":   "\x00\x01\x02binary\xff\xfe\n\x80\n",
		"long":     strings.Repeat("x", 1<<20) + "\nshow config cores\n",
		"unending": strings.Repeat("start ", 1<<16),
	} {
		file := filepath.Join(dir, name)
		os.WriteFile(file, []byte(content), 0o600)
		if got := b.run("load " + file); !strings.Contains(got, file) || len(got) > 300 {
			t.Errorf("%s: %d bytes: %.300q", name, len(got), got)
		}
	}
}

// TestRefusals has commands for functions that no port has: they are refused in
// words, and change nothing.
func TestRefusals(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.fakes[0].calls = nil
	for line, want := range map[string]string{
		"read reg 0 0x10":                  "Registers of port 0 cannot be reached: the driver alone uses them",
		"write regfield 0 0x10 0 1 1":      "Registers of port 0 cannot be reached: the driver alone uses them",
		"read reg 9 0x10":                  "Invalid port 9",
		"rx_vxlan_port add 4789 0":         "udp tunneling add error: (Operation not supported)",
		"show port 0 flow_ctrl":            "Failed to get current flow ctrl information: err = -95",
		"set flow_ctrl rx on 0":            "cannot get current flow ctrl parameters, return code = -95",
		"show port 0 eeprom":               "operation not supported by device",
		"show port 0 fec_mode":             "Function not implemented",
		"set port 0 ptype_mask 1":          "Port 0 doesn't support any ptypes.",
		"set txbuffer 64 on":               "Bad arguments",
		"set stat_qmap tx 0 9 2":           "Invalid TX queue 9 (must be < nb_txq=1)",
		"set stat_qmap tx 9 0 2":           "Invalid port 9",
		"set stat_qmap tx 0 0 16":          "map_value not in required range 0..15",
		"set stat_qmap rx 0 0 15":          "",
		"dump_mempool foo":                 "Cannot find mempool",
		"dump_ring foo":                    "Cannot find ring",
		"set log global 9":                 "log level 9 > 8 (maximum level) - ignored",
		"set log global foo":               "Bad arguments",
		"tunnel_tso set 800 0":             "Please stop port 0 first",
		"port config all max-lro-pkt-size": "Bad arguments",
	} {
		if got := strings.TrimSuffix(b.run(line), "\n"); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if len(b.fakes[0].calls) != 0 {
		t.Errorf("the port was asked to %v", b.fakes[0].calls)
	}
	b.run("port stop 0")
	b.check(t, `testpmd> tunnel_tso set 800 0
Error: port=0 don't support tunnel TSO offloads.
testpmd> tunnel_tso set 0 0
TSO for tunneled packets is disabled
testpmd> tunnel_tso show 9
Invalid port 9
testpmd> csum set outer-ip hw 0
Outer IP checksum offload is not supported by port 0
Parse tunnel is off
IP checksum offload is sw
UDP checksum offload is sw
TCP checksum offload is sw
SCTP checksum offload is sw
Outer-Ip checksum offload is sw
Outer-Udp checksum offload is sw
testpmd> set link_check off
testpmd> port start 0
virtio: using mergeable buffer Rx path on port 0
virtio: using simple Tx path on port 0
Port 0: 52:54:00:58:D7:01
Done
testpmd> port stop 0
Stopping ports...
Done
`)
}

func TestDumps(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> dump_mempool mb_pool_0
mempool <mb_pool_0>
  socket_id=0
  size=2048
  populated_size=2048
  elt_size=2176
  total_obj_size=2176
  internal cache infos:
    cache_size=256
  common_pool_count=2048
testpmd> dump_devargs
User device list:
  [vdev]: net_virtio_user0 path=/tmp/x.sock
`)
	for line, want := range map[string]string{
		"dump_physmem":      "Segment 0-0: IOVA:0x",
		"dump_socket_mem":   "Socket 0: size(M) total: 5.25",
		"dump_struct_sizes": "sizeof(mbuf.Buf) = ",
		"dump_lcores":       "lcore 0, socket 0, role RTE, the console\nlcore 1, ",
	} {
		if got := b.run(line); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestSetLogReachesTheLogger(t *testing.T) {
	levels := map[string]int{}
	b := startedBench(t, 1, func(c *Config) {
		c.SetLog = func(kind string, level int) error {
			if kind == "unknown" {
				return os.ErrNotExist
			}
			levels[kind] = level
			return nil
		}
		c.LogLevels = func() []string { return []string{"global log level is info"} }
	})
	b.check(t, `testpmd> set log global 8
testpmd> set log pmd.net.virtio 7
testpmd> set log unknown 7
Unable to set log level: file does not exist
testpmd> dump_log_types
global log level is info
`)
	if levels["global"] != 8 || levels["pmd.net.virtio"] != 7 {
		t.Errorf("%v", levels)
	}
}

func TestChosenPortsAndCores(t *testing.T) {
	b := newBench(t, 3, func(c *Config) {
		c.Options.PortList, c.Options.NbPorts, c.Options.CoreList = []int{2, 0, 1}, 2, []int{2, 1}
	})
	b.check(t, `testpmd> show config fwd
io packet forwarding - ports=2 - cores=2 - streams=2 - NUMA support enabled, MP allocation mode: native
Logical Core 2 (socket 0) forwards packets on 1 streams:
  RX P=2/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:00:00:00:00:00
Logical Core 1 (socket 0) forwards packets on 1 streams:
  RX P=0/Q=0 (socket 0) -> TX P=2/Q=0 (socket 0) peer=02:00:00:00:00:02

`)
	for want, change := range map[string]func(*Options){
		"portlist: port 3 is not there, or is listed twice":      func(o *Options) { o.PortList = []int{0, 3} },
		"portlist: port 0 is not there, or is listed twice":      func(o *Options) { o.PortList = []int{0, 0} },
		"coremask: lcore 0 does not forward, or is listed twice": func(o *Options) { o.CoreList = []int{0} },
		"coremask: lcore 1 does not forward, or is listed twice": func(o *Options) { o.CoreList = []int{1, 1} },
	} {
		cfg := b.Config
		cfg.Options = DefaultOptions()
		change(&cfg.Options)
		if _, err := New(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
