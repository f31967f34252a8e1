package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vionet/scripts/lab"
)

// A reader works through docs/tutorial.md: it has a terminal for each name
// that a block of the document bears, types what stands behind a prompt, and
// looks for the other lines in the answers.
type reader struct {
	t         *testing.T
	env       []string
	terminals map[string]*terminal
}

// terminal is a shell that looks as in the document.
type terminal struct {
	*lab.Process
	read int // how much of the transcript has been looked at
}

// prompts are what a shell or a console says when it listens.
var prompts = []string{"$ ", lab.Prompt}

// block is a block of a terminal in the document.
var block = regexp.MustCompile("(?ms)^```console ([a-z]+)\n(.*?)^```$")

// TestTutorial does what the tutorial says, in the order in which it is said.
func TestTutorial(t *testing.T) {
	lab.Need(t, "qemu")
	text, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	r := &reader{t: t, env: append(goCaches(t), "PS1=$ ", "TERM=dumb", "HOME="+t.TempDir()), terminals: map[string]*terminal{}}
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 10 {
		t.Fatalf("only %d blocks were found", len(blocks))
	}
	for _, b := range blocks {
		r.work(r.terminal(b[1]), strings.Split(strings.TrimSuffix(b[2], "\n"), "\n"))
	}
}

// goCaches is the part of the environment that lets another home's go command
// find what was built before.
func goCaches(t *testing.T) (env []string) {
	t.Helper()
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		dir, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(dir)))
	}
	return env
}

// terminal gives the terminal of a name, a new one at its first mention.
func (r *reader) terminal(name string) *terminal {
	r.t.Helper()
	if r.terminals[name] == nil {
		argv := append([]string{"env"}, r.env...)
		p := lab.Spawn(r.t, append(argv, "bash", "--norc", "--noediting", "-i")...)
		r.terminals[name] = &terminal{Process: p}
		r.terminals[name].answer(r.t)
	}
	return r.terminals[name]
}

// work types the commands of a block and compares the answers.
func (r *reader) work(at *terminal, lines []string) {
	r.t.Helper()
	for len(lines) > 0 {
		command, typed := afterPrompt(lines[0])
		if !typed {
			r.t.Fatalf("a block begins with %q, not with a prompt", lines[0])
		}
		end := slices.IndexFunc(lines[1:], func(line string) bool { _, typed := afterPrompt(line); return typed })
		shown := lines[1:]
		if end >= 0 {
			shown = lines[1 : 1+end]
		}
		lines = lines[1+len(shown):]
		if command == "" {
			continue // the prompt alone
		}
		compare(r.t, command, shown, at.typed(r.t, command))
	}
}

// afterPrompt cuts the prompt off a line, if there is one.
func afterPrompt(line string) (command string, typed bool) {
	for _, p := range prompts {
		if line+" " == p {
			return "", true
		}
		if command, typed = strings.CutPrefix(line, p); typed {
			return command, true
		}
	}
	return "", false
}

// typed types a command and gives the answer. A console repeats the command; what
// it says before that is about an event, with a prompt of its own behind it.
func (at *terminal) typed(t *testing.T, command string) string {
	t.Helper()
	console := strings.HasSuffix(at.Transcript()[:at.read], lab.Prompt)
	if err := at.Send(command); err != nil {
		t.Fatal(err)
	}
	said := at.answer(t)
	for console && !strings.Contains(said, command) {
		said = at.answer(t)
	}
	return said
}

// answer waits until the terminal listens again and gives what it said.
func (at *terminal) answer(t *testing.T) string {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		said := at.Transcript()[at.read:]
		for _, p := range prompts {
			if said == p || strings.HasSuffix(said, "\n"+p) {
				at.read += len(said)
				return said
			}
		}
	}
	t.Fatalf("no prompt follows; the terminal said:\n%s", at.Transcript())
	return ""
}

// compare looks for the lines of the document in the answer, in their order.
func compare(t *testing.T, command string, shown []string, answer string) {
	t.Helper()
	said := strings.Split(answer, "\n")
	for _, want := range shown {
		at := slices.IndexFunc(said, func(line string) bool { return likeness(line) == likeness(want) })
		if at < 0 {
			t.Errorf("after %q the document has the line\n%s\nand the answer was\n%s", command, want, answer)
			return
		}
		said = said[at+1:]
	}
}

var (
	stationAddress = regexp.MustCompile(`(?:[0-9A-F]{2}:){5}[0-9A-F]{2}`)
	number         = regexp.MustCompile(`[1-9][0-9]*`)
	gaps           = regexp.MustCompile(`\s+`)
	release        = regexp.MustCompile(`^vionet (\(devel\)|v\d.*)$`)
)

// likeness is a line without what differs from run to run: addresses, the
// version, and numbers, of which only matters whether they are 0.
func likeness(line string) string {
	line = release.ReplaceAllString(line, "vionet VERSION")
	line = stationAddress.ReplaceAllString(line, "ADDRESS")
	line = number.ReplaceAllString(line, "N")
	return strings.TrimSpace(gaps.ReplaceAllString(line, " "))
}
