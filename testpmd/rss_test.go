package testpmd

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"vionet/virtio"
)

func twoQueues(c *Config) { c.Options.RxQueues, c.Options.TxQueues = 2, 2 }

func TestB17RSSIsReadBackAsItWasSet(t *testing.T) {
	b, rich := richBench(t, twoQueues)
	if want := virtio.HashIPv4 | virtio.HashIPv6 | virtio.HashIPv6Ex; rich.rss.Types != want {
		t.Errorf("types at the start %v, want %v", rich.rss.Types, want)
	}
	key := strings.Repeat("5A", 40)
	b.check(t, fmt.Sprintf(`testpmd> port config 0 rss-hash-key ipv4 %s
testpmd> port config all rss udp
rss_hf 0x20820
testpmd> show port 0 rss-hash key
RSS functions:
  ipv4-udp  ipv6-udp  ipv6-udp-ex
RSS key:
%s
testpmd> port config 0 rss reta (0,1),(1,1),(2,0)
The reta size of port 0 is 128
testpmd> show port 0 rss reta 128 (0xf,0x3)
RSS RETA configuration: hash index=0, queue=1
RSS RETA configuration: hash index=1, queue=1
RSS RETA configuration: hash index=2, queue=0
RSS RETA configuration: hash index=3, queue=1
RSS RETA configuration: hash index=64, queue=0
RSS RETA configuration: hash index=65, queue=1
`, key, key))
	if got := hex.EncodeToString(rich.rss.Key); !strings.EqualFold(got, key) {
		t.Errorf("the port has the key %s", got)
	}
	// A new start has nothing to configure, or asks for the same types.
	if out := b.run("port stop 0", "port start 0"); strings.Contains(out, "Configuring") {
		t.Errorf("%s", out)
	}
	b.run("port stop 0", "port config all rxq 1", "port start 0")
	if rich.conf.RSS != nil {
		t.Error("RSS was asked for with one queue")
	}
	b.run("port stop 0", "port config all rxq 2", "port start 0")
	if rich.conf.RSS == nil || rich.conf.RSS.Types != virtio.HashUDPv4|virtio.HashUDPv6|virtio.HashUDPv6Ex {
		t.Errorf("a new start asked for %+v", rich.conf.RSS)
	}
}

func TestB17WrongRSSChangesNothing(t *testing.T) {
	b, rich := richBench(t, twoQueues)
	before := fmt.Sprint(rich.rss)
	b.check(t, fmt.Sprintf(`testpmd> port config 0 rss-hash-key ipv4 %s
key length: 78 invalid - key must be a string of 80 hexa-decimal numbers
testpmd> port config 0 rss-hash-key ipv4 %s
key length: 82 invalid - key must be a string of 80 hexa-decimal numbers
testpmd> port config 0 rss-hash-key ipv4 zz%s
invalid key: character z at position 0 is not a valid hexa digit
testpmd> port config 0 rss-hash-key foo 5a5a
Bad arguments
testpmd> port config 9 rss-hash-key ipv4 5a5a
Invalid port_id=9
Error during getting device (port 9) info: No such device
testpmd> port config 0 rss reta (0,9)
The reta size of port 0 is 128
entry 0 names queue 9: invalid argument
Bad redirection table parameter, return code = -22
testpmd> port config 0 rss reta (300,0)
The reta size of port 0 is 128
Invalid RETA hash index=300
Invalid RSS Redirection Table config entered
testpmd> port config 0 rss reta (0,1
The reta size of port 0 is 128
Invalid RSS Redirection Table config entered
testpmd> port config 0 rss reta 0,0
The reta size of port 0 is 128
Invalid RSS Redirection Table config entered
testpmd> show port 0 rss reta 64 (0xf)
Failed to get RSS RETA info, return code = -22
testpmd> show port 0 rss reta 129 (0xf)
Invalid redirection table size: 129 (1-128)
testpmd> show port 0 rss reta 64 ()
The bits of masks do not match the number of reta entries: 1
Invalid string: () for reta masks
testpmd> show port 0 rss reta 128 (0x1)
The bits of masks do not match the number of reta entries: 2
Invalid string: (0x1) for reta masks
testpmd> show port 9 rss reta 64 (0x1)
Invalid port_id=9
Error during getting device (port 9) info: No such device
testpmd> port config all rss foo
Unknown parameter
testpmd> port config all rss 64
Unknown parameter
`, strings.Repeat("5a", 39), strings.Repeat("5a", 41), strings.Repeat("5a", 39)))
	if after := fmt.Sprint(rich.rss); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

func TestRSSModes(t *testing.T) {
	b, rich := richBench(t, twoQueues)
	for _, tt := range []struct {
		word, says string
		types      virtio.HashTypes
	}{
		{"ip", "Port 0 modified RSS hash function based on hardware support,requested:0xa38c configured:0x8104\nrss_hf 0xa38c\n", virtio.HashIPv4 | virtio.HashIPv6 | virtio.HashIPv6Ex},
		{"tcp", "rss_hf 0x10410\n", virtio.HashTCPv4 | virtio.HashTCPv6 | virtio.HashTCPv6Ex},
		{"all", "Port 0 modified RSS hash function based on hardware support,requested:0x137f83fffc configured:0x38d34\nrss_hf 0x137f83fffc\n", virtio.HashTypesAll},
		{"none", "rss_hf 0\n", 0},
		{"default", "", virtio.HashTypesAll},
		{"5", "rss_hf 0x20\n", virtio.HashUDPv4},
		{"ipv6-tcp-ex", "rss_hf 0x10000\n", virtio.HashTCPv6Ex},
	} {
		if got := b.run("port config all rss " + tt.word); got != tt.says {
			t.Errorf("%s: %q, want %q", tt.word, got, tt.says)
		}
		if rich.rss.Types != tt.types {
			t.Errorf("%s: the port has %v, want %v", tt.word, rich.rss.Types, tt.types)
		}
	}
	b.run("port config all rss none")
	b.check(t, `testpmd> show port 0 rss-hash
RSS disabled
`)
}

// TestWithoutRSS has what DPDK's testpmd says of a virtio port without it.
func TestWithoutRSS(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> port config all rss ip
Port 0 modified RSS hash function based on hardware support,requested:0xa38c configured:0
Multi-queue RSS mode isn't enabled.
Configuration of RSS hash at ethernet port 0 failed with error (95): Operation not supported.
testpmd> port config all rss none
Multi-queue RSS mode isn't enabled.
Configuration of RSS hash at ethernet port 0 failed with error (95): Operation not supported.
testpmd> port config 0 rss reta (0,0)
Redirection table size is 0 which is invalid for RSS
testpmd> port config 0 rss-hash-key ipv4 5a5a
dev_info did not provide a valid hash key size
testpmd> show port 0 rss reta 64 (0x1)
Invalid redirection table size: 64 (1-0)
testpmd> show port 0 rss-hash key
dev_info did not provide a valid hash key size
testpmd> show port 9 rss-hash
Invalid port 9
`)
}

func TestRSSOfOneQueue(t *testing.T) {
	b, _ := richBench(t, nil)
	b.check(t, `testpmd> port config all rss udp
Multi-queue RSS mode isn't enabled.
Configuration of RSS hash at ethernet port 0 failed with error (95): Operation not supported.
testpmd> port config 0 rss reta (0,0)
The reta size of port 0 is 128
Multi-queue RSS mode isn't enabled.
Bad redirection table parameter, return code = -95
testpmd> show port 0 rss-hash
Multi-queue RSS mode isn't enabled.
operation not supported by device
`)
	if info := b.run("show port info 0"); !strings.Contains(info, `
Hash key size in bytes: 40
Redirection table size: 128
Supported RSS offload flow types:
  ipv4  ipv4-tcp  ipv4-udp  ipv6  ipv6-tcp  ipv6-udp  ipv6-ex
  ipv6-tcp-ex  ipv6-udp-ex
Minimum size of RX buffer: 64
`) {
		t.Errorf("%s", info)
	}
}
