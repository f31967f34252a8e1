package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vionet/scripts/lab"
	"vionet/testpmd"
)

// pagesOf writes the manual into a directory and gives its pages by file name.
func pagesOf(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if err := newApp().Run([]string{"vionet", "man", "--dir", dir}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		pages[f.Name()] = string(text)
	}
	return pages
}

// words are those of a text, without the marks of roff and of tables.
func words(text string) []string {
	text = strings.NewReplacer(`\-`, "-", `\e`, `\`, `\&`, "", `\fB`, "", `\fR`, "", `\fI`, "", `\[u2026]`, "…").Replace(text)
	return strings.Fields(text)
}

// Each command has a page, which says all that its --help says.
func TestManualSaysWhatHelpSays(t *testing.T) {
	pages := pagesOf(t)
	commands := 0
	for _, c := range newApp().Commands {
		page := words(pages["vionet-"+c.Name+".1"])
		if len(page) == 0 {
			t.Errorf("there is no page of %s", c.Name)
			continue
		}
		commands++
		var help bytes.Buffer
		app := newApp()
		app.Writer = &help
		if err := app.Run([]string{"vionet", c.Name, "--help"}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(help.String()) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasSuffix(line, ":"): // a heading: other case and punctuation
				continue
			case strings.HasPrefix(line, "--help, -h"), strings.HasPrefix(line, "help, h "): // of every command
				continue
			case strings.HasPrefix(line, "vionet "+c.Name+" - "):
				line = c.Usage
			}
			if !contains(page, strings.Fields(line)) {
				t.Errorf("the page of %s lacks this line of its help: %s", c.Name, line)
			}
		}
		if !strings.Contains(pages["vionet.1"], `.TP
\fB`+c.Name+`\fR
`) {
			t.Errorf("vionet.1 does not name %s", c.Name)
		}
	}
	if commands < 5 || len(pages) != commands+2 {
		t.Errorf("%d pages for %d commands, the program and the console", len(pages), commands)
	}
}

// contains reports whether the words of a line follow each other in a text.
func contains(text, line []string) bool {
	for i := 0; i+len(line) <= len(text); i++ {
		if slices.Equal(text[i:i+len(line)], line) {
			return true
		}
	}
	return false
}

// The page of the console has every command of the reference.
func TestManualOfTheConsole(t *testing.T) {
	page := words(pagesOf(t)["vionet-console.7"])
	commands := 0
	for line := range strings.Lines(testpmd.Reference()) {
		if pattern, found := strings.CutPrefix(strings.TrimSpace(line), "- `"); found {
			commands++
			if pattern = strings.TrimSuffix(pattern, "`"); !contains(page, strings.Fields(pattern)) {
				t.Errorf("the page lacks %s", pattern)
			}
		}
	}
	if commands < 50 {
		t.Errorf("only %d commands in the reference", commands)
	}
}

// The formatter has nothing to say against the pages.
func TestManualFormats(t *testing.T) {
	lab.Need(t, "groff")
	for name, text := range pagesOf(t) {
		cmd := exec.Command("groff", "-man", "-ww", "-rHY=0", "-Tutf8", "-P-cbou")
		cmd.Stdin = strings.NewReader(text)
		var said bytes.Buffer
		cmd.Stderr = &said
		shown, err := cmd.Output()
		if err != nil || said.Len() > 0 {
			t.Errorf("%s: %v: %s", name, err, said.String())
		}
		if !strings.Contains(string(shown), "NAME") || strings.Contains(string(shown), `\-`) {
			t.Errorf("%s formats to:\n%s", name, shown)
		}
	}
}

func TestManualErrors(t *testing.T) {
	for args, want := range map[string]string{
		"nothing":             "there is no page vionet-nothing",
		"--dir /tmp devbind":  "name none",
		"--dir /nonexistent/": "no such file",
	} {
		err := newApp().Run(append([]string{"vionet", "man"}, strings.Fields(args)...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("man %s: %v, want %q", args, err, want)
		}
	}
	if got := roff(`.\-x…`); got != `\&.\e\-x\[u2026]` {
		t.Errorf("escaped as %s", got)
	}
}
