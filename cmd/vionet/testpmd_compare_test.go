package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vionet/scripts/lab"
)

// comparison is a command whose answers by both consoles are compared. They are
// equal, or differ for the reason given.
type comparison struct{ line, reason string }

// readComparisons reads commands, one a line. What stands behind "# differs: "
// is the reason why the answers are not the same.
func readComparisons(t *testing.T) []comparison {
	t.Helper()
	text, err := os.ReadFile("testdata/compare/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []comparison
	for line := range strings.Lines(string(text)) {
		line, reason, _ := strings.Cut(strings.TrimRight(line, "\n"), "# differs: ")
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, comparison{line, reason})
		}
	}
	return list
}

// normalised takes out of an answer what is not the same in two runs of the same
// program: addresses, sockets and rates. It also takes out what each program logs
// beside its answers.
var normalised = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\r`), ""},
	{regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`), ""},
	{regexp.MustCompile(`(?m)^virtio: .*\n`), ""}, // our log: the burst functions of a start
	{regexp.MustCompile(`(?m)^EAL: .*\n`), ""},    // DPDK's log
	{regexp.MustCompile(`(?m)^tap_mp_req.*\n`), ""},
	{regexp.MustCompile(`path=[^,]*`), "path=SOCKET"},
	{regexp.MustCompile(`([RT]x-[pb]ps:) +\d+`), "$1 N"},
}

func normalise(answer string) string {
	for _, n := range normalised {
		answer = n.what.ReplaceAllString(answer, n.with)
	}
	return strings.TrimLeft(answer, "\n ")
}

// TestComparisonWithDPDK holds the same conversation with dpdk-testpmd 22.11 and
// with our console, each on a virtio-user port of DPDK's vhost.
func TestComparisonWithDPDK(t *testing.T) {
	lab.Need(t, "dpdk")
	dir := t.TempDir()
	sockets := []string{filepath.Join(dir, "0"), filepath.Join(dir, "1")}
	var backends []string
	for i, socket := range sockets {
		backends = append(backends, "net_vhost"+string(rune('0'+i))+",iface="+socket+",queues=2,tso=1")
	}
	lab.Testpmd(t, lab.DPDK{Vdevs: backends, Arguments: []string{"--rxq=2", "--txq=2", "--total-num-mbufs=4096"}})
	devargs := func(i int) string {
		return "net_virtio_user0,path=" + sockets[i] + ",mac=00:01:02:03:04:05,queues=2"
	}
	arguments := []string{"--rxq=2", "--txq=2", "--total-num-mbufs=4096"}
	theirs := lab.Testpmd(t, lab.DPDK{Vdevs: []string{devargs(0)}, Arguments: arguments})
	ours := lab.Spawn(t, append([]string{vionet(t), "testpmd", "--lcores", "0@0,1@0", "--no-pci", "--vdev", devargs(1), "--", "-i"}, arguments...)...)
	if _, err := ours.Expect(t.Context(), lab.Prompt); err != nil {
		t.Fatal(err)
	}
	list := readComparisons(t)
	if len(list) < 150 {
		t.Errorf("there are %d commands", len(list))
	}
	for _, c := range list {
		want := normalise(lab.Command(t, theirs.Console, c.line))
		got := normalise(lab.Command(t, ours.Console, c.line))
		switch {
		case got == want && c.reason != "":
			t.Errorf("%s: the answers are the same now: take out why they are not (%s)", c.line, c.reason)
		case got != want && c.reason == "":
			t.Errorf("%s:\ndpdk-testpmd: %q\nvionet:       %q", c.line, want, got)
		}
	}
}
