package testpmd

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// mixer makes lines of the patterns of commands.
type mixer struct {
	*rand.Rand
	table []*command
}

// leftOut are commands that end the console, wait, or use files, and those that
// take ports away or leave them unable to start: other tests have them.
var leftOut = []string{
	"quit", "load", "load_echo", "watch", "capture", "port close (port_id|all)", "port detach (port_id)", "device detach (ident)",
	"port config (port_id) rx_offload (rx_name) (on|off)", "port config (port_id) tx_offload (tx_name) (on|off)",
	"port (port_id) rxq (queue_id) rx_offload (rx_name) (on|off)", "port (port_id) txq (queue_id) tx_offload (tx_name) (on|off)",
	"port config (port_id) (rxq|txq) (queue_id) ring_size (value)",
}

func (m mixer) line() string {
	for {
		cmd := m.table[m.IntN(len(m.table))]
		first, _, _ := strings.Cut(cmd.pattern, " ")
		if slices.Contains(leftOut, first) || slices.Contains(leftOut, cmd.pattern) {
			continue
		}
		var words []string
		for i := range cmd.tokens {
			words = append(words, m.word(cmd.tokens[i]))
		}
		return strings.Join(words, " ")
	}
}

// word is one that fits the token, nearly always.
func (m mixer) word(t token) string {
	values := []string{"0", "1", "0", "1", "2", "64", "512", "1", "4294967296", "-1", "02:00:00:00:00:07", "01:00:5e:00:00:01", "64,64", "0,1", "(0,1)", "(0x1)"}
	if len(t.words) > 0 && (t.accept == nil || m.IntN(2) == 0) {
		return t.words[m.IntN(len(t.words))]
	}
	for range 20 {
		if w := values[m.IntN(len(values))]; t.accept != nil && t.accept(w) {
			return w
		}
	}
	return "0"
}

// TestLongScripts holds long conversations of all commands in any order, with
// packets moving: nothing breaks down, and every buffer comes back.
func TestLongScripts(t *testing.T) {
	for seed := range uint64(4) {
		b := startedBench(t, 2, func(c *Config) {
			twoQueues(c)
			c.Options.FlushRx = false
			c.Ports[0] = newRichPort(c.Ports[0].(*fakePort))
		})
		m := mixer{rand.New(rand.NewPCG(seed, seed)), b.commands}
		var script []string
		forwarded := 0
		for i := range 300 {
			line := m.line()
			switch i % 25 {
			case 0:
				line = "port start all"
			case 1:
				line = "start tx_first"
			case 20:
				line = "stop"
			case 24:
				line = "port stop all"
			}
			if b.fwd != nil && b.fwd.totals(0, b.ports[0].Stats()).rx > 0 {
				forwarded++
			}
			script = append(script, line)
			if out := b.run(line); strings.Contains(out, "panic") {
				t.Fatalf("seed %d: %s: %s", seed, line, out)
			}
			if len(b.faults) > 0 {
				t.Fatalf("seed %d: %v after\n%s", seed, <-b.faults, strings.Join(script, "\n"))
			}
		}
		if b.fwd != nil {
			b.run("stop")
		}
		if forwarded == 0 {
			t.Errorf("seed %d: no packet moved", seed)
		}
		b.run("port stop all")
		if b.fwd != nil || b.pool.Free() != b.pool.Size() {
			t.Errorf("seed %d: %d of %d buffers are back after\n%s", seed, b.pool.Free(), b.pool.Size(), strings.Join(script, "\n"))
		}
	}
}
