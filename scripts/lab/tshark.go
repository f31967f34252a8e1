package lab

import (
	"os/exec"
	"strings"
	"testing"
)

// Tshark reads a capture file to its end and gives a row for every packet, with the
// fields of those names as tshark writes them. It fails the test when tshark does
// not take the file, or has anything to say of it.
func Tshark(t testing.TB, file string, fields ...string) (rows [][]string) {
	t.Helper()
	Need(t, "tshark")
	args := []string{"-n", "-r", file, "-T", "fields"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	var complaints strings.Builder
	cmd := exec.CommandContext(t.Context(), "tshark", args...)
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark on %s: %v\n%s", file, err, complaints.String())
	}
	for line := range strings.Lines(complaints.String()) {
		if !strings.HasPrefix(line, `Running as user "root"`) {
			t.Errorf("tshark on %s says: %s", file, line)
		}
	}
	for line := range strings.Lines(string(out)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}
