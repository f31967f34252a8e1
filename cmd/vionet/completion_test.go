package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vionet/scripts/lab"
)

// TestBashCompletes loads the script in a shell and asks it for words.
func TestBashCompletes(t *testing.T) {
	lab.Need(t, "bash")
	dir := filepath.Dir(vionet(t))
	for words, want := range map[string]string{
		"vionet dev": "devbind", "vionet comp": "completion", "vionet testpmd --tx-o": "--tx-offloads", "vionet completion f": "fish",
	} {
		script := `PATH="$1:$PATH"; source <(vionet completion bash); COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _vionet; echo "${COMPREPLY[@]}"`
		out, err := exec.Command("bash", "-c", script, "bash", dir, words).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q completes to %q (%v), want %q", words, got, err, want)
		}
	}
}
