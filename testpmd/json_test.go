package testpmd

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// snake are the names that may stand in an object.
var snake = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// keysOf collects the names in a value that came out of JSON.
func keysOf(v any, keys map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			keys[k] = true
			keysOf(inner, keys)
		}
	case []any:
		for _, inner := range v {
			keysOf(inner, keys)
		}
	}
}

// object reads the one object that a command printed.
func object(t *testing.T, line, out string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil || strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, "\n") {
		t.Errorf("%s: not one object on one line: %v\n%s", line, err, out)
		return nil
	}
	keys := map[string]bool{}
	keysOf(v, keys)
	for k := range keys {
		if !snake.MatchString(k) {
			t.Errorf("%s: name %q", line, k)
		}
	}
	return v
}

// samplesOf gives lines that match a pattern: one for each word of a choice.
func samplesOf(cmd *command) []string {
	lines := []string{""}
	for i, field := range strings.Fields(cmd.pattern) {
		choices := cmd.tokens[i].words
		switch {
		case field == "(size)":
			choices = []string{"128"}
		case field == "(mask0[,mask1]*)":
			choices = []string{"(0x3,0x1)"}
		case field == "(ident)":
			choices = []string{"all", "net_virtio_user0", "nobody"}
		case cmd.tokens[i].accept != nil:
			choices = append([]string{"0", "7"}, choices...)
		}
		var longer []string
		for _, line := range lines {
			for _, word := range choices {
				longer = append(longer, strings.TrimSpace(line+" "+word))
			}
		}
		lines = longer
	}
	return lines
}

func TestEveryShowCommandHasJSON(t *testing.T) {
	for _, forwards := range []bool{false, true} {
		b := startedBench(t, 2, func(c *Config) { c.Options.FlushRx = false })
		if forwards {
			b.run("start tx_first")
		}
		count := 0
		for _, cmd := range b.commands {
			if !strings.HasPrefix(cmd.pattern, "show ") || strings.HasSuffix(cmd.pattern, " json") {
				continue
			}
			for _, line := range samplesOf(cmd) {
				count++
				text := b.run(line)
				v := object(t, line, b.run(line+" json"))
				if complaint, failed := v["error"]; failed && !strings.HasSuffix(strings.TrimSpace(text), complaint.(string)) {
					t.Errorf("%s: text complains\n%s\nJSON\n%s", line, text, complaint)
				}
				if cmd.json == nil && v["error"] == nil {
					t.Errorf("%s shows something, and has no value for it", line)
				}
			}
		}
		if count < 50 {
			t.Errorf("%d lines tried", count)
		}
		b.run("stop", "port stop all")
	}
}

// The values are those of the text.
func TestJSONValues(t *testing.T) {
	b := startedBench(t, 2, func(c *Config) { c.Options.FlushRx, c.Options.RxQueues, c.Options.TxQueues = false, 2, 2 })
	capture := filepath.Join(t.TempDir(), "x.pcapng")
	b.run("capture start "+capture, "start tx_first")
	eventually(t, "packets move", func() bool { return b.fwd.streams[0].TxPackets.Load() > 100 })
	if err := b.fwd.halt(stopLimit); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"show port summary 1":                  `{"ports":[{"port_id":1,"mac_address":"52:54:00:58:D7:02","device_name":"net_virtio_user1","driver_name":"net_virtio_user","link_status":"up","link_speed_mbps":null}]}`,
		"show port 0 path":                     `{"port_id":0,"rx":{"name":"mergeable","reason":"the device offers mergeable buffers","simpler":"mrg_rxbuf=0"},"tx":{"name":"simple","reason":"no transmit offload is on","simpler":""}}`,
		"show port 0 tx_offload capabilities":  `{"port_id":0,"per_queue":[],"per_port":["VLAN_INSERT","UDP_CKSUM","TCP_CKSUM","TCP_TSO","MULTI_SEGS"]}`,
		"show port 1 rx_offload configuration": `{"port_id":1,"port":[],"queues":[[],[]]}`,
		"show port 0 macs":                     `{"port_id":0,"addresses":["52:54:00:58:D7:01"]}`,
		"show port 0 mcast_macs":               `{"port_id":0,"addresses":[]}`,
		"show port 0 ptypes":                   `{"port_id":0,"ptypes":[]}`,
		"show port info 7":                     `{"error":"Invalid port 7\nThe valid ports array is [ 0 1 ]"}`,
		"show config cores":                    `{"cores":[1]}`,
		"show config txpkts":                   `{"segments":[64],"split":"off"}`,
		"show config txtimes":                  `{"interburst_gap":0,"intraburst_gap":0}`,
		"show config rxpkts":                   `{"segments":[]}`,
		"show config rxoffs":                   `{"offsets":[]}`,
		"show config fwd": `{"mode":"io","retry":null,"tx_buffer":null,"poll":{"mode":"busy","spin_us":50},"nb_ports":2,"cores":[{"lcore":1,"streams":[` +
			`{"rx_port":0,"rx_queue":0,"tx_port":1,"tx_queue":0,"peer":"02:00:00:00:00:01"},{"rx_port":1,"rx_queue":0,"tx_port":0,"tx_queue":0,"peer":"02:00:00:00:00:00"},` +
			`{"rx_port":0,"rx_queue":1,"tx_port":1,"tx_queue":1,"peer":"02:00:00:00:00:01"},{"rx_port":1,"rx_queue":1,"tx_port":0,"tx_queue":1,"peer":"02:00:00:00:00:00"}]}]}`,
	} {
		if diff := cmp.Diff(want+"\n", b.run(line+" json")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", line, diff)
		}
	}

	stats := object(t, "stats", b.run("show port stats all json"))["ports"].([]any)
	for id, text := range []string{b.run("show port stats 0"), b.run("show port stats 1")} {
		v := stats[id].(map[string]any)
		for _, want := range []string{fmt.Sprintf("RX-packets: %-10.0f ", v["rx_packets"]), fmt.Sprintf("TX-packets: %-10.0f ", v["tx_packets"])} {
			if !strings.Contains(text, want) || v["tx_packets"] == 0.0 {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
	}
	xstats := object(t, "xstats", b.run("show port xstats 0 json"))["ports"].([]any)[0].(map[string]any)
	if text := b.run("show port xstats 0"); !strings.Contains(text, fmt.Sprintf("tx_good_packets: %.0f\n", xstats["tx_good_packets"])) {
		t.Errorf("%v, and in text\n%s", xstats, text)
	}
	fwd := object(t, "fwd stats", b.run("show fwd stats all json"))
	total := fwd["total"].(map[string]any)
	text := b.run("show fwd stats all")
	for _, want := range []string{
		fmt.Sprintf("  RX-packets: %-14.0f RX-dropped: 0             RX-total: %.0f\n", total["rx_packets"], total["rx_total"]),
		fmt.Sprintf("  TX-packets: %-14.0f TX-dropped: %-14.0fTX-total: %.0f\n", total["tx_packets"], total["tx_dropped"], total["tx_total"]),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if c, _ := fwd["capture"].(map[string]any); len(fwd["streams"].([]any)) != 4 || len(fwd["ports"].([]any)) != 2 || fwd["running"] != true || c["file"] != capture {
		t.Errorf("%v", fwd)
	}
	b.run("stop", "capture stop")
	if fwd := object(t, "fwd stats", b.run("show fwd stats all json")); fwd["running"] != false || fwd["capture"] != nil {
		t.Errorf("after stop: %v", fwd)
	}
}
