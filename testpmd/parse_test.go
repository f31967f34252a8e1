package testpmd

import (
	"strings"
	"testing"
)

func TestWrongWords(t *testing.T) {
	b := startedBench(t, 1, nil)
	for line, want := range map[string]string{
		"":                           "",
		"   ":                        "",
		"# start":                    "",
		"foo bar":                    notFound,
		"sta":                        notFound,
		"START":                      notFound,
		"show":                       badArgs,
		"show port":                  badArgs,
		"show port info":             badArgs,
		"show port info 0 1":         badArgs,
		"show port inf 0":            badArgs,
		"show port info x":           badArgs,
		"show port info -1":          badArgs,
		"show config":                badArgs,
		"show config all":            badArgs,
		"start now":                  badArgs,
		"start tx_first 2 3":         badArgs,
		"set fwd":                    badArgs,
		"set fwd nonsense":           badArgs,
		"set fwd io again":           badArgs,
		"set burst 1_0":              badArgs,
		"set txpkts 1,":              "No valid value behind comma",
		"set txpkts ,1":              "No valid value before comma",
		"set txpkts 1-2":             "character - is not a decimal digit",
		"set promisc 0 maybe":        badArgs,
		"port config 0 rxq 2":        badArgs,
		"show config cores # of all": "List of forwarding lcores:  1",
		"\tshow  config\tcores\r":    "List of forwarding lcores:  1",
	} {
		if got := strings.TrimSuffix(b.run(line), "\n"); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestAmbiguousCommand(t *testing.T) {
	one := &command{tokens: parsePattern("do (this|that)", nil)}
	two := &command{tokens: parsePattern("do (that|it)", nil)}
	table := []*command{one, two}
	for line, want := range map[string]struct {
		cmd    *command
		answer string
	}{
		"do this": {one, ""},
		"do it":   {two, ""},
		"do that": {nil, ambiguous},
		"do":      {nil, badArgs},
		"do them": {nil, badArgs},
		"undo":    {nil, notFound},
	} {
		if cmd, answer := find(table, splitLine(line)); cmd != want.cmd || answer != want.answer {
			t.Errorf("%q: %v, %q", line, cmd, answer)
		}
	}
}

// Every command must be reachable: no pattern may match what another means.
func TestTableHasNoAmbiguity(t *testing.T) {
	table := commandTable()
	samples := map[string]string{"(x[,y]*)": "1,2", "(file)": "f", "(peer_addr)": "02:00:00:00:00:01", "(mac_address)": "02:00:00:00:00:01"}
	for _, cmd := range table {
		var words []string
		for _, field := range strings.Fields(cmd.pattern) {
			switch {
			case samples[field] != "":
				words = append(words, samples[field])
			case valueTokens()[field].accept != nil:
				words = append(words, "1")
			default:
				i := len(words)
				words = append(words, cmd.tokens[i].words[0])
			}
		}
		if found, answer := find(table, words); found != cmd {
			t.Errorf("%q as %q: %q", cmd.pattern, words, answer)
		}
		if cmd.help != "" && cmd.section == nil || cmd.run == nil {
			t.Errorf("%q is incomplete", cmd.pattern)
		}
	}
}

func TestParseNumber(t *testing.T) {
	for word, want := range map[string]uint64{"0": 0, "32": 32, "0x20": 32, "0b101": 5, "017": 15, "18446744073709551615": 1<<64 - 1} {
		if got, ok := parseNumber(word); !ok || got != want {
			t.Errorf("%q: %d %t, want %d", word, got, ok, want)
		}
	}
	for _, word := range []string{"", "-1", "+1", "1x", "x", "0x", "1_000", "0o7", "18446744073709551616", "1.5", " 1"} {
		if n, ok := parseNumber(word); ok {
			t.Errorf("%q: taken as %d", word, n)
		}
	}
}

func TestParseMAC(t *testing.T) {
	if mac, ok := ParseMAC("02:11:22:33:44:5f"); !ok || mac != [6]byte{2, 0x11, 0x22, 0x33, 0x44, 0x5f} {
		t.Errorf("%x %t", mac, ok)
	}
	for _, word := range []string{"", "zz", "02:11:22:33:44", "02:11:22:33:44:55:66:77"} {
		if _, ok := ParseMAC(word); ok {
			t.Errorf("%q was taken", word)
		}
	}
}

func FuzzExec(f *testing.F) {
	for _, cmd := range commandTable() {
		f.Add(cmd.pattern)
	}
	f.Add("port config all rxq 18446744073709551615")
	f.Add("set txpkts 1,2,3#")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "load") || strings.Contains(line, "capture") || strings.Contains(line, "watch") {
			return // these use files and clocks
		}
		b := newBench(t, 2, func(c *Config) { c.Options.FlushRx = false })
		b.run("port start all", line, "start", line, "stop", line, "port stop all", line, "port start all")
		if b.fwd != nil {
			b.stopForwarding()
		}
		b.run("port stop all")
		if b.pool.Free() != b.pool.Size() {
			t.Errorf("%q: %d of %d buffers are back", line, b.pool.Free(), b.pool.Size())
		}
	})
}
