package testpmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestB25RejectedNumbersAreNotKept gives each numeric command values out of
// its range, with what is shown of the setting before and after.
func TestB25RejectedNumbersAreNotKept(t *testing.T) {
	const never = "-1 1x  18446744073709551616 0x 1_0"
	for _, tt := range []struct {
		command string // with %s for the number
		bad     string // numbers that are refused with a range
		says    []string
		good    string
		show    string
		list    bool // whose words are the command's own to read
	}{
		{"set burst %s", "513 4294967296 18446744073709551615", []string{"nb pkt per burst: ", "> 512"}, "512", "show config rxtx", false},
		{"port config all burst %s", "513 4294967296", []string{"burst must be >= 1 && <= 512"}, "512", "show config rxtx", false},
		{"set nbcore %s", "0 3 4294967296", []string{"nb fwd cores ", "ignored"}, "2", "show config cores", false},
		{"set nbport %s", "3 4294967297", []string{"nb fwd ports ", "> 2"}, "1", "show config fwd", false},
		{"port config all rxq %s", "0 2 9999 4294967297", []string{"Fail: input rxq (", "rx_queues ("}, "1", "show config rxtx", false},
		{"port config all txq %s", "0 2 9999 4294967297", []string{"Fail: input txq (", "tx_queues ("}, "1", "show config rxtx", false},
		{"port config all rxd %s", "0 31 32769 4294967328", []string{"Fail: input rxd (", "_rxds ("}, "64", "show config rxtx", false},
		{"port config all txd %s", "0 31 32769 4294967328", []string{"Fail: input txd (", "_txds ("}, "64", "show config rxtx", false},
		{"port config mtu 0 %s", "0 67 9699 4294968796", []string{"MTU (", "for port_id 0"}, "68", "show port info 0", false},
		{"set txpkts %s", "41 2049 65535", []string{"give up"}, "42", "show config txpkts", true},
		{"tso set %s 0", "65536 4294967297", []string{"tso segsize: ", "> 65535"}, "1400", "tso show 0", false},
		{"tx_vlan set 0 %s", "4096 4294967296", []string{"Invalid vlan_id ", "< 4096"}, "4095", "show port 0 tx_offload configuration", false},
		{"set verbose %s", "65536 4294967296", []string{"verbose level ", "> 65535"}, "3", "set verbose 0", false},
		{"set burst tx delay %s retry 1", "1001 4294967296", []string{"tx delay: ", "> 1000"}, "5", "show config fwd", false},
		{"set burst tx delay 1 retry %s", "1001 4294967296", []string{"tx retry: ", "> 1000"}, "5", "show config fwd", false},
		{"set txbuffer %s", "0 257 32769 4294967297", []string{"txbuffer ", "invalid - must be "}, "256", "show txbuffer", false},
		{"set txbuffer 8 drain %s", "1000001 4294967296", []string{"txbuffer drain: ", "> 1000000"}, "7", "show txbuffer", false},
		{"set txbuffer 8 retries %s", "1001 4294967296", []string{"txbuffer retries: ", "> 1000"}, "7", "show txbuffer", false},
		{"set txbuffer 8 drain 5 retries %s", "1001", []string{"txbuffer retries: ", "> 1000"}, "7", "show txbuffer", false},
		{"port config all txfreet %s", "65536 4294967296", []string{"txfreet ", "<= 65535"}, "16", "show config rxtx", false},
		{"port config all txht %s", "256 4294967297", []string{"txht ", "<= 255"}, "7", "show config rxtx", false},
		{"port config all rxfreet %s", "65536", []string{"rxfreet ", "<= 65535"}, "7", "show config rxtx", false},
		{"port config all max-pkt-len %s", "0 63", []string{"max-pkt-len can not be less than 64"}, "1600", "show port info 0", false},
		{"port config all max-pkt-len %s", "97 9729 4294967360", []string{" port"}, "1600", "show port info 0", false},
		{"port config 0 rxq 0 ring_size %s", "31 32769 4294967328", []string{"Fail: input rxd ("}, "64", "show config rxtx", false},
		{"tx_vlan set pvid 0 %s on", "4096 4294967296", []string{"Invalid vlan_id ", "< 4096"}, "9", "show port 0 tx_offload configuration", false},
		{"set txtimes %s", "2147483648", []string{"tx times: "}, "9", "show config txtimes", true},
		{"set rxpkts %s", "65536 4294967296", []string{"length"}, "9", "show config rxpkts", true},
		{"set portlist %s", "2 64 4294967296", []string{"port"}, "1", "show config fwd", true},
		{"set corelist %s", "0 3 4294967297", []string{"core"}, "2", "show config cores", true},
		{"set coremask %s", "0 1 8 18446744073709551615", []string{"core"}, "4", "show config cores", false},
		{"set portmask %s", "0 4 9223372036854775808", []string{"port"}, "2", "show config fwd", false},
	} {
		// The second port is the one with the lower limit.
		b := newBench(t, 2, func(c *Config) { c.Options.FlushRx = false })
		b.fakes[1].info.MaxRxQueues, b.fakes[1].info.MaxTxQueues = 1, 1
		b.fakes[1].info.TxDesc = 256
		b.run("set fwd io retry")
		for _, n := range strings.Fields(tt.bad) {
			before := b.run(tt.show)
			answer := b.run(fmt.Sprintf(tt.command, n))
			for _, part := range tt.says {
				if !strings.Contains(answer, part) {
					t.Errorf(tt.command+": %q lacks %q", n, answer, part)
				}
			}
			if after := b.run(tt.show); after != before && tt.show != "set verbose 0" {
				t.Errorf(tt.command+" changed\n%sto\n%s", n, before, after)
			}
		}
		for _, n := range strings.Split(never, " ") {
			before := b.run(tt.show)
			if answer := b.run(fmt.Sprintf(tt.command, n)); answer != badArgs+"\n" && (!tt.list || answer == "") {
				t.Errorf(tt.command+": %q", n, answer)
			}
			if after := b.run(tt.show); after != before {
				t.Errorf(tt.command+" changed\n%sto\n%s", n, before, after)
			}
		}
		if answer := b.run("port start all", "start"); strings.Contains(answer, "Fail") || b.fwd == nil {
			t.Errorf("%s: afterwards: %s", tt.command, answer)
		}
		b.run("stop", "port stop all")
		before := b.run(tt.show)
		b.run(fmt.Sprintf(tt.command, tt.good))
		if after := b.run(tt.show); after == before && !strings.Contains(tt.command, "verbose") && !strings.HasSuffix(tt.command, "q %s") {
			t.Errorf(tt.command+" changed nothing of\n%s", tt.good, before)
		}
	}
}

func TestLists(t *testing.T) {
	b := startedBench(t, 2, nil)
	b.check(t, `testpmd> set portlist 5
Invalid port 5
testpmd> set portlist 0,0
duplicated port 0 at index 0 and 1
testpmd> set portlist 1,0
testpmd> show config fwd
io packet forwarding - ports=2 - cores=1 - streams=2 - NUMA support enabled, MP allocation mode: native
Logical Core 1 (socket 0) forwards packets on 2 streams:
  RX P=1/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:00:00:00:00:00
  RX P=0/Q=0 (socket 0) -> TX P=1/Q=0 (socket 0) peer=02:00:00:00:00:01

testpmd> set corelist 0
lcore 0 cannot be masked on for running packet forwarding, which is the main lcore and reserved for command line parsing only
testpmd> set corelist 7
lcore 7 not enabled
testpmd> set corelist 2,1
previous number of forwarding cores 1 - changed to number of configured cores 2
testpmd> show config fwd
io packet forwarding - ports=2 - cores=2 - streams=2 - NUMA support enabled, MP allocation mode: native
Logical Core 2 (socket 0) forwards packets on 1 streams:
  RX P=1/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:00:00:00:00:00
Logical Core 1 (socket 0) forwards packets on 1 streams:
  RX P=0/Q=0 (socket 0) -> TX P=1/Q=0 (socket 0) peer=02:00:00:00:00:01

testpmd> set nbport 1
Number of forwarding ports set to 1

Warning! port-topology=paired and odd forward ports number, the last port will pair with itself.

testpmd> set portlist 0
testpmd> set eth-peer 0 02:11:22:33:44:55
testpmd> set eth-peer 7 02:11:22:33:44:55
Error: Invalid port number 7
testpmd> set eth-peer 0 zz
Error: Invalid ethernet address: zz
testpmd> show config fwd
io packet forwarding - ports=1 - cores=1 - streams=1 - NUMA support enabled, MP allocation mode: native
Logical Core 2 (socket 0) forwards packets on 1 streams:
  RX P=0/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:11:22:33:44:55

testpmd> set promisc 0 on
testpmd> set promisc 7 on
Invalid port_id=7
Error during enabling promiscuous mode for port 7: No such device
testpmd> set verbose 1
Change verbose level from 0 to 1
`)
}

func TestLoad(t *testing.T) {
	b := startedBench(t, 1, nil)
	dir := t.TempDir()
	file := filepath.Join(dir, "commands")
	os.WriteFile(file, []byte("# a comment\nshow config cores\nnonsense\nset fwd\nset burst 16\n"), 0o600)
	self := filepath.Join(dir, "self")
	os.WriteFile(self, []byte("load "+self+"\n"), 0o600)
	quits := filepath.Join(dir, "quits")
	os.WriteFile(quits, []byte("quit\nshow config cores\n"), 0o600)

	want := "List of forwarding lcores:  1\n" + file + ":3: Command not found\n" + file + ":4: Bad arguments\n" +
		"Number of packets per burst set to 16\nRead CLI commands from " + file + "\n"
	if got := b.run("load " + file); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := b.run("load " + fifo); got != "Read CLI commands from "+fifo+"\n" {
		t.Errorf("a pipe without a writer: %q", got)
	}
	if got := b.run("load " + dir); !strings.Contains(got, "is a directory") {
		t.Errorf("a directory: %q", got)
	}
	if got := b.run("load /nonexistent"); got != "Failed to create file based cmdline context: /nonexistent\n" {
		t.Errorf("%q", got)
	}
	if got := b.run("load " + self); strings.Count(got, "not loaded") != 1 {
		t.Errorf("%q", got)
	}
	if got := b.run("load " + quits); !b.quitting || strings.Contains(got, "lcores") {
		t.Errorf("quit in a file: %q, quitting %t", got, b.quitting)
	}
}
