package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/port"
	"vionet/testpmd"
	"vionet/testpmd/engine"
	"vionet/virtio"
)

func TestOptionsOfACommandLine(t *testing.T) {
	eal, app, err := parseTestpmd(strings.Fields(
		"--lcores 0@0,(3-4)@0 -n4 -a 0000:00:04.0,vectorized=1 --allow=0000:00:05.0 --vdev net_null0,size=64 --vdev=net_null1 -m 128 --no-huge --in-memory" +
			" --huge-dir /mnt --file-prefix x --single-file-segments --no-telemetry --iova-mode=va --log-level=pmd.*:debug --log-level 7 --log-format json --main-lcore 3" +
			" -- -i -a --forward-mode csum --rxq=2 --txq 3 --rxd=256 --txd=512 --burst 64 --nb-cores=2 --port-topology=chained --rx-offloads=0x2000 --tx-offloads 12" +
			" --txpkts=64,128 --eth-peer 1,02:00:00:00:00:99 --total-num-mbufs=4096 --mbuf-size=4096 --no-flush-rx --mask-event=intr_lsc --cmdline-file f --stats-period 2"))
	if err != nil {
		t.Fatal(err)
	}
	wantEAL := ealOptions{
		Cores:    []testpmd.Core{{ID: 0, CPUs: []int{0}}, {ID: 3, CPUs: []int{0}}, {ID: 4, CPUs: []int{0}}},
		MainCore: 3,
		Allow:    []device{{"0000:00:04.0", "vectorized=1"}, {"0000:00:05.0", ""}},
		Vdevs:    []device{{"net_null0", "size=64"}, {"net_null1", ""}},
		MemoryMB: 128, NoHuge: true, InMemory: true, HugeDir: "/mnt", IOVAMode: "va",
		LogLevels: []string{"pmd.*:debug", "7"}, LogFormat: "json",
	}
	if diff := cmp.Diff(wantEAL, eal); diff != "" {
		t.Errorf("EAL: (-want +got)\n%s", diff)
	}
	wantApp := appOptions{
		Options: testpmd.Options{
			Interactive: true, AutoStart: true, StatsPeriod: 2e9, CmdlineFile: "f",
			Mode: "csum", Topology: testpmd.Chained, Burst: 64, NbCores: 2, MuteLink: true,
			RxQueues: 2, TxQueues: 3, RxDesc: 256, TxDesc: 512,
			RxOffloads: port.RxScatter, TxOffloads: port.TxUDPCksum | port.TxTCPCksum,
			RSSTypes: rssIP, PollMode: testpmd.PollBusy, Spin: testpmd.DefaultSpin,
			TxSegs: []int{64, 128}, Peers: map[int][6]byte{1: {2, 0, 0, 0, 0, 0x99}},
		},
		TotalMbufs: 4096, MbufSize: 4096,
	}
	if diff := cmp.Diff(wantApp, app); diff != "" {
		t.Errorf("console: (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]testpmd.Core{{ID: 0, CPUs: []int{0}}, {ID: 4, CPUs: []int{0}}}, eal.forwardingCores()); diff != "" {
		t.Errorf("forwarding cores: (-want +got)\n%s", diff)
	}
}

func TestTuningOptions(t *testing.T) {
	peers := filepath.Join(t.TempDir(), "peers")
	os.WriteFile(peers, []byte("02:00:00:00:00:11\n02:00:00:00:00:12\n"), 0o600)
	app, err := parseApp(strings.Fields("--portmask=0x3 --nb-ports=1 --coremask 0x6 --disable-link-check --disable-device-start --max-pkt-len 9000"+
		" --record-core-cycles --record-burst-stats --enable-hw-vlan --enable-lro --rx-offloads=0x2000 --enable-rx-cksum --rss-udp"+
		" --rxfreet=16 --txfreet=32 --txpt 3 --rxwt=4 --txrst=8 --txonly-multi-flow --tx-ip=10.0.0.1,10.0.0.2 --tx-udp=7,8 --flowgen-flows=4 --flowgen-clones=2"+
		" --noisy-tx-sw-buffer-size=64 --noisy-tx-sw-buffer-flushtime=10 --noisy-lkup-memory=1 --noisy-lkup-num-reads=3"+
		" --poll-mode=adaptive --mask-event=all --print-event=all --no-mlockall --no-lsc-interrupt --mbcache=250 --eth-peers-configfile="+peers), 3)
	if err != nil {
		t.Fatal(err)
	}
	want := appOptions{Options: testpmd.DefaultOptions(), MbufSize: 2176}
	want.PortList, want.NbPorts, want.CoreList = []int{0, 1}, 1, []int{1, 2}
	want.SkipLinkCheck, want.KeepStopped, want.MaxPktLen, want.MuteLink = true, true, 9000, true
	want.RecordCycles, want.RecordBursts = true, true
	want.PollMode = testpmd.PollAdaptive
	want.RxOffloads = 0x2000 | 0xe // a mask takes the place of what was asked for before it
	want.RSSTypes = virtio.HashIPv4 | virtio.HashIPv6 | virtio.HashIPv6Ex | virtio.HashUDPv4 | virtio.HashUDPv6 | virtio.HashUDPv6Ex
	want.RxThresholds = testpmd.Thresholds{Free: 16, WriteBack: 4}
	want.TxThresholds = testpmd.Thresholds{Free: 32, Prefetch: 3, RS: 8}
	want.MultiFlow, want.TxAddrs, want.TxPorts = true, [2][4]byte{{10, 0, 0, 1}, {10, 0, 0, 2}}, [2]uint16{7, 8}
	want.Flows, want.Clones = 4, 2
	want.Noise = engine.Noise{Hold: 64, Flush: 10 * time.Millisecond, Memory: 1 << 20, Reads: 3}
	want.Peers = map[int][6]byte{0: {2, 0, 0, 0, 0, 0x11}, 1: {2, 0, 0, 0, 0, 0x12}}
	if diff := cmp.Diff(want, app); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOptionsByDefault(t *testing.T) {
	eal, app, err := parseTestpmd(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(eal.forwardingCores()) == 0 || eal.MainCore != eal.Cores[0].ID {
		t.Errorf("%+v", eal)
	}
	if diff := cmp.Diff(appOptions{Options: testpmd.DefaultOptions(), MbufSize: 2176}, app); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestB25WrongOptionsAreNamed: the message has the option, the value and what
// may stand there.
func TestB25WrongOptionsAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		"--bogus":                            "unrecognized option '--bogus'",
		"-z":                                 "unrecognized option '-z'",
		"extra":                              "invalid parameter: extra",
		"--no-pci=1":                         "option '--no-pci' doesn't allow an argument",
		"--vdev":                             "option '--vdev' requires an argument",
		"-m 0":                               "m 0 invalid - must be >= 1 && <= 16777216",
		"-m 1x":                              "m 1x invalid - must be >= 1 && <= 16777216",
		"-l 0-x":                             "l x invalid - must be >= 0 && <= 1023",
		"-l 0,1000":                          "lcore 1000 unavailable - processors are ",
		"--lcores 0@0,1@0,1@0":               "lcore 1 invalid - it is listed twice",
		"-l 0":                               "no cores defined for forwarding: -l needs one more than the main one",
		"--lcores 0@0":                       "no cores defined for forwarding: -l needs one more than the main one",
		"--main-lcore 1000":                  "main-lcore 1000 invalid - must be one of the lcores",
		"-l 0 --lcores 0":                    "options -l and --lcores cannot be used at the same time",
		"-a 0:0 -b 0:1":                      "options -a and -b cannot be used at the same time",
		"--iova-mode dc":                     "iova-mode dc invalid - must be: va or pa",
		"--log-format xml":                   "log-format xml invalid - must be: console or json",
		"--vdev a --vdev a":                  "vdev a invalid - there is one of that name already",
		"-- extra":                           "invalid parameter: extra",
		"-- --bogus=1":                       "unrecognized option '--bogus'",
		"-- --rxq":                           "option '--rxq' requires an argument",
		"-- --burst=0":                       "burst 0 invalid - must be >= 1 && <= 512",
		"-- --burst=513":                     "burst 513 invalid - must be >= 1 && <= 512",
		"-- --burst=-1":                      "burst -1 invalid - must be >= 1 && <= 512",
		"-- --burst=1x":                      "burst 1x invalid - must be >= 1 && <= 512",
		"-- --burst=":                        "burst  invalid - must be >= 1 && <= 512",
		"-- --burst=0x20":                    "burst 0x20 invalid - must be >= 1 && <= 512",
		"-- --burst=4294967297":              "burst 4294967297 invalid - must be >= 1 && <= 512",
		"-- --rxq=65537":                     "rxq 65537 invalid - must be >= 1 && <= 65535",
		"-- --txq=18446744073709551617":      "txq 18446744073709551617 invalid - must be >= 1 && <= 65535",
		"-- --rxd=0":                         "rxd 0 invalid - must be >= 1 && <= 65535",
		"-- --txd=65536":                     "txd 65536 invalid - must be >= 1 && <= 65535",
		"-- --nb-cores=0":                    "nb-cores 0 invalid - must be >= 1 && <= ",
		"-- --nb-cores=5000":                 "nb-cores 5000 invalid - must be >= 1 && <= ",
		"-- --total-num-mbufs=1024":          "total-num-mbufs 1024 invalid - must be >= 1025 && <= 268435456",
		"-- --mbuf-size=128":                 "mbuf-size 128 invalid - must be >= 129 && <= 65535",
		"-- --stats-period=-1":               "stats-period -1 invalid - must be >= 0 && <= 1073741824",
		"-- --rx-offloads=x":                 "rx-offloads x invalid - must be a number >= 0 && <= 0xffffffffffffffff",
		"-- --txpkts=10":                     "txpkts: total packet length=10 < 42 - give up",
		"-- --txpkts=a":                      "bad txpkts: a - must be lengths >= 1 && <= 65535",
		"-- --txpkts=64 --mbuf-size=170":     "txpkts: length[0]=64 > mbuf_data_size=42 - give up",
		"-- --eth-peer=0":                    "invalid eth-peer: 0",
		"-- --eth-peer=32,02:00:00:00:00:01": "eth-peer 32 invalid - must be >= 0 && <= 31",
		"-- --eth-peer=0,zz":                 "invalid ethernet address: zz",
		"-- --forward-mode=foo":              "invalid foo packet forwarding mode - must be: io, mac, macswap, ",
		"-- --port-topology=x":               "port-topology x invalid - must be: paired or chained or loop",
		"-- --poll-mode=lazy":                "poll-mode lazy invalid - must be: busy or adaptive or interrupt",
		"-- --mask-event=foo":                "mask-event foo invalid - must be: unknown, queue_state, ",
		"-- --txfreet=65536":                 "txfreet 65536 invalid - must be >= 0 && <= 65535",
		"-- --rxpt=256":                      "rxpt 256 invalid - must be >= 0 && <= 255",
		"-- --max-pkt-len=63":                "max-pkt-len 63 invalid - must be >= 64 && <= 65535",
		"-- --nb-ports=33":                   "nb-ports 33 invalid - must be >= 0 && <= 32",
		"-- --portlist=0-1":                  "portlist 0-1 invalid - must be numbers with commas between them",
		"-- --coremask=zz":                   "coremask zz invalid - must be a number >= 0 && <= 0xffffffffffffffff",
		"-- --tx-ip=1.2.3.4":                 "tx-ip 1.2.3.4 invalid - must be two IPv4 addresses with a comma between them",
		"-- --tx-ip=1.2.3.4,::1":             "tx-ip 1.2.3.4,::1 invalid - must be two IPv4 addresses",
		"-- --tx-udp=9,65536":                "tx-udp 65536 invalid - must be >= 0 && <= 65535",
		"-- --flowgen-flows=0":               "flowgen-flows 0 invalid - must be >= 1 && <= 1048576",
		"-- --noisy-tx-sw-buffer-size=x":     "noisy-tx-sw-buffer-size x invalid - must be >= 0 && <= 8192",
		"-- --eth-peers-configfile=/none":    "eth-peers-configfile: open /none: no such file or directory",
		"-- -i --tx-first":                   "--tx-first cannot be used on interactive mode",
	} {
		if _, _, err := parseTestpmd(strings.Fields(line)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func TestB25OptionsAreHeldAgainstEachPort(t *testing.T) {
	wide := port.Info{MaxRxQueues: 8, MaxTxQueues: 8, MinDesc: 32, MaxDesc: 1024}
	narrow := port.Info{MaxRxQueues: 2, MaxTxQueues: 1, MinDesc: 64, MaxDesc: 256}
	for _, tt := range []struct{ line, want string }{
		{"-- --rxq=2 --txq=1 --rxd=64 --txd=256", ""},
		{"-- --rxq=3", "Fail: input rxq (3) can't be greater than max_rx_queues (2) of port 1"},
		{"-- --txq=2", "Fail: input txq (2) can't be greater than max_tx_queues (1) of port 1"},
		{"-- --rxd=32", "Fail: input rxd (32) can't be less than min_rxds (64) of port 1"},
		{"-- --txd=512", "Fail: input txd (512) can't be greater than max_txds (256) of port 1"},
		{"-- --eth-peer=2,02:00:00:00:00:01", "eth-peer 2 invalid - there are 2 ports"},
	} {
		_, app, err := parseTestpmd(strings.Fields(tt.line))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := app.checkPorts([]port.Info{wide, narrow}); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestFormatRanges(t *testing.T) {
	for want, numbers := range map[string][]int{"0": {0}, "0-1": {0, 1}, "0-2,5,7-8": {0, 1, 2, 5, 7, 8}} {
		if got := formatRanges(numbers); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func FuzzOptions(f *testing.F) {
	f.Add("-l 0-1 -n4 --vdev net_null0,size=64 -- -i --rxq=2 --txpkts=64,64 --eth-peer 0,02:00:00:00:00:01")
	f.Add("--lcores (0,2-3)@(0-1),1@0 -- -a")
	f.Fuzz(func(t *testing.T, line string) {
		eal, _, err := parseTestpmd(strings.Fields(line))
		if err == nil && len(eal.forwardingCores()) == 0 {
			t.Errorf("%q leaves no core to forward", line)
		}
	})
}
