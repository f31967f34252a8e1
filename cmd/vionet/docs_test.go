package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

var (
	// called is a command of vionet in code: at the start of a line, behind a
	// prompt, in a directory, or behind another command.
	called = regexp.MustCompile("(?m)(?:^ {4,}|[`$#;/] ?|&& |run --rm .*)vionet ([a-z]+)((?: [^`\n]*)?)")
	// joined is the end of a line that goes on.
	joined = regexp.MustCompile(`\s*\\\n\s*`)
	// ends is what ends a command in a shell, or its description.
	ends = regexp.MustCompile(`[|;&<>…]|  | # `)
)

// Options of vionet that documents name exist.
func TestDocumentsNameOptionsThatExist(t *testing.T) {
	commands := map[string]*cli.Command{}
	for _, c := range newApp().Commands {
		commands[c.Name] = c
	}
	found := 0
	for _, document := range documents(t) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range called.FindAllStringSubmatch(joined.ReplaceAllString(string(text), " "), -1) {
			command, arguments := commands[m[1]], m[2]
			if at := ends.FindStringIndex(arguments); at != nil {
				arguments = arguments[:at[0]]
			}
			if command == nil {
				t.Errorf("%s: there is no vionet %s: %s", document, m[1], m[0])
				continue
			}
			for _, option := range unknownOptions(command, strings.Fields(arguments)) {
				t.Errorf("%s: vionet %s has no option %s: %s", document, m[1], option, m[0])
			}
			found++
		}
	}
	if found < 20 {
		t.Errorf("only %d command lines were found", found)
	}
}

// documents are those of the tree, and its recipes, from this directory.
func documents(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".lab", "bin", "testdata"}, entry.Name()):
			return fs.SkipDir
		case filepath.Ext(name) == ".md" || entry.Name() == "Containerfile":
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// unknownOptions lists those of the arguments that look like options of the
// command and are none.
func unknownOptions(c *cli.Command, arguments []string) (unknown []string) {
	known := func(name string) bool { return slices.Contains(flagNames(c), strings.TrimLeft(name, "-")) }
	if c.Name == "testpmd" {
		known = func(name string) bool { return knownToParser(name, parseMachine) }
	}
	for _, argument := range arguments {
		name, _, _ := strings.Cut(argument, "=")
		switch {
		case argument == "--":
			known = func(name string) bool { return knownToParser(name, parseConsole) }
		case strings.HasPrefix(name, "-") && name != "-" && !known(name):
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// flagNames are all names of a command's options.
func flagNames(c *cli.Command) []string {
	names := []string{"help", "h"}
	for _, f := range c.Flags {
		names = append(names, f.Names()...)
	}
	return names
}

func parseMachine(args []string) error { _, err := parseEAL(args); return err }

func parseConsole(args []string) error { _, err := parseApp(args, 1); return err }

// knownToParser reports whether a parser of testpmd's options takes that one.
func knownToParser(name string, parse func([]string) error) bool {
	if name == "--help" || name == "-h" {
		return true
	}
	err := parse([]string{name})
	return err == nil || !strings.Contains(err.Error(), "unrecognized option")
}
