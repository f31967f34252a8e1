package main

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// command types a line as a program does, with a newline, and gives what stands
// between its echo and the next prompt.
func (c *terminalConsole) command(t *testing.T, line string) string {
	t.Helper()
	c.send(t, line+"\n")
	answer := c.expect(t, "testpmd> ")
	echo, answer, _ := strings.Cut(answer, "\r\n")
	if echo != line {
		t.Errorf("the echo of %q is %q", line, echo)
	}
	return answer
}

// TestDTSRules has what DPDK's test suite looks for when it drives a console
// over a terminal of 80 columns.
func TestDTSRules(t *testing.T) {
	c := openTerminal(t)
	match := func(line, want string) {
		t.Helper()
		if got := c.command(t, line); !regexp.MustCompile(`(?s)^` + want + `$`).MatchString(got) {
			t.Errorf("%s: %q does not match %s", line, got, want)
		}
	}
	key := "port config 0 rss-hash-key ipv4 " + strings.Repeat("5a", 40)
	match(key, "dev_info did not provide a valid hash key size\r\n") // on one line, though longer than 80
	match("", "")
	for _, quiet := range []string{"set promisc 0 on", "port config mtu 0 1400", "set flush_rx on", "set eth-peer 0 02:00:00:00:00:01", "clear port xstats all"} {
		match(quiet, "")
	}
	match("start", `.*TX offloads=0x0 - TX RS bit threshold=0\r\n`)
	match("start", "Packet forwarding already started\r\n")
	match("stop", `Telling cores to stop\.\.\..*\r\nDone\.\r\n`)
	match("stop", "Packet forwarding not started\r\n")
	for _, mode := range []string{"io", "mac", "macswap", "rxonly", "txonly", "csum", "icmpecho", "5tswap", "flowgen", "noisy", "shared-rxq", "shared_rxq", "recycle_mbufs"} {
		match("set fwd "+mode, "Set "+mode+" packet forwarding mode\r\n")
	}
	match("set fwd ieee1588", "Bad arguments\r\n")
	match("set verbose 3", "Change verbose level from 0 to 3\r\n")
	match("set portlist 9", "Invalid port 9\r\n")
	match("show port info 99", `Invalid port 99\r\n.*`)
	match("show port stats 99", `Invalid port 99\r\n.*`)
	match("clear port stats 0", "\r\n  NIC statistics for port 0 cleared\r\n")
	match("show device info all", `(?s).*\r\n\*+ Infos for device net_null0 \*+\r\n.*Device speed capability: Autonegotiate \(all speeds\)\r\n`)

	info := c.command(t, "show port info all")
	for _, want := range []string{
		`^\r\n\*{21} Infos for port 0  \*{21}\r\nMAC address: [0-9A-F:]{17}\r\n`,
		`\r\nConnect to socket: \d+\r\n`, `\r\nmemory allocation on the socket: \d+\r\n`,
		`\r\nLink status: up\r\n`, `\r\nMTU: 1400\r\n`,
		`\r\nMaximum number of MAC addresses of hash filtering: \d+\r\n`,
		`\r\nVLAN offload: \r\n  strip off, filter off, extend off, qinq strip off\r\n`,
		`\r\nDevice capabilities: 0x[0-9a-f]+\(`, `\r\nDevice error handling mode: (none|passive|proactive|unknown)\r\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(info) {
			t.Errorf("%s is not in %q", want, info)
		}
	}
	if i := strings.Index(info[2:], "\r\n\r\n"); i >= 0 {
		t.Errorf("an empty line within the block: %q", info)
	}

	stats := c.command(t, "show port stats all")
	for _, want := range []string{
		`\r\n  #+ NIC statistics for port 0  #+\r\n  RX-packets: \d+ +RX-missed: \d+ +RX-bytes:  \d+\r\n  RX-errors: \d+\r\n  RX-nombuf:  \d+ *\r\n`,
		`\r\n  TX-packets: \d+ +TX-errors: \d+ +TX-bytes:  \d+\r\n\r\n  Throughput \(since last show\)\r\n  Rx-pps: +\d+ +Rx-bps: +\d+\r\n  Tx-pps: +\d+ +Tx-bps: +\d+\r\n  #+\r\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(stats) {
			t.Errorf("%s is not in %q", want, stats)
		}
	}
	for _, way := range []string{"rx", "tx"} {
		match("show port 0 "+way+"_offload capabilities", `[RT]x Offloading Capabilities of port 0 :\r\n  Per Queue :[ A-Z_]*\r\n  Per Port  :[ A-Z0-9_]*\r\n\r\n`)
		match("show port 0 "+way+"_offload configuration", `[RT]x Offloading Configuration of port 0 :\r\n  Port :[ A-Z0-9_]*\r\n  Queue\[ 0\] :[ A-Z0-9_]*\r\n\r\n`)
		match("show "+way+"q info 0 0", `.*\r\n[RT]X deferred start: off\r\n.*Number of [RT]XDs: \d+\r\n.*`)
		match("port 0 "+way+"q 0 stop", "")
		match("show "+way+"q info 0 0", `.*\r\n[RT]x queue state: stopped\r\n.*`)
		match("port 0 "+way+"q 0 setup", "")
		match("port 0 "+way+"q 0 start", "")
		match("show "+way+"q info 0 0", `.*\r\n[RT]x queue state: started\r\n.*`)
		match("port config 0 "+way+"q 0 ring_size 128", "")
		match("port 0 "+way+"q 0 setup", "")
		match("show "+way+"q info 0 0", `.*\r\nNumber of [RT]XDs: 128\r\n.*`)
	}
	match("port stop all", `Stopping ports\.\.\.\r\n.*Done\r\n`)
	for _, way := range []string{"rx", "tx"} {
		match("port 0 "+way+"q 0 deferred_start on", "")
		match("show "+way+"q info 0 0", `.*\r\n[RT]X deferred start: on\r\n.*`)
		match("port 0 "+way+"q 0 deferred_start off", "")
	}
	match("show port summary all", `.* down +\S.*\r\n`)
	match("csum set ip sw 0", `.*IP checksum offload is sw\r\n.*`)
	match("port start all", `.*Done\r\n`)
	match("show port summary all", `.* up +\S.*\r\n`)
	match("port stop all", `.*Done\r\n`)
	match("port close all", `Closing ports\.\.\.\r\n.*Port 0 is closed\r\nDone\r\n`)
	match("show port info all", "")
	c.send(t, "quit\n")
	c.expect(t, "Bye...\r\n")
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestDTSStart types a second newline behind the start of the program, before it
// has changed the terminal: it must not be lost, and gets a prompt of its own.
func TestDTSStart(t *testing.T) {
	c := startTerminal(t)
	c.send(t, "\n")
	c.expect(t, "testpmd> ")
	c.expect(t, "testpmd> ")
	c.send(t, "quit\n")
	c.expect(t, "Bye...\r\n")
}

// TestPacketsOnATerminal looks at how packets are described: what DPDK's test
// suite reads has no dots, and no empty flags.
func TestDTSVerbosePackets(t *testing.T) {
	c := openTerminal(t)
	c.command(t, "set fwd txonly")
	c.command(t, "set verbose 2")
	c.command(t, "set txpkts 64")
	c.send(t, "start\n")
	c.expect(t, "ol_flags: ")
	time.Sleep(10 * time.Millisecond)
	c.send(t, "set verbose 0\nstop\n")
	c.expect(t, "Done.\r\ntestpmd> ")
	line := regexp.MustCompile(`  src=[0-9A-F:]{17} - dst=[0-9A-F:]{17} - pool=\w+ - type=0x0800 - length=64 - nb_segs=1 - hw ptype: [A-Z0-9_ ]+ - sw ptype: [A-Z0-9_ ]+ - l2_len=14 - l3_len=20 - l4_len=8 - Send queue=0x0\r\n  ol_flags: \S[A-Z0-9_ ]+\r\n`)
	if !line.MatchString(c.all()) {
		t.Errorf("no packet is described as expected in %.2000q", c.all())
	}
	c.send(t, "quit\n")
	c.expect(t, "Bye...\r\n")
}
