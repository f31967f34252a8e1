package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// link is a link of Markdown, heading the title of a section.
	link    = regexp.MustCompile(`\[[^\]\n]+\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	// fence is a block of code between fences, quoted a piece of code in prose.
	fence  = regexp.MustCompile("(?ms)^```.*?^```$")
	quoted = regexp.MustCompile("`([^`]+)`")
	// indented is a line of code without fences.
	indented = regexp.MustCompile(`(?m)^    .*$`)
	// path is the name of a file or directory of the tree.
	path = regexp.MustCompile(`^(?:[a-z]+/)+[A-Za-z0-9_.-]*$|^[A-Za-z0-9_/-]+\.(?:md|go|sh)$`)
	// target is a rule of the Makefile, making a call of make.
	target = regexp.MustCompile(`(?m)^([a-z-]+):`)
	making = regexp.MustCompile(`(?:^|[ $])make ([a-z][a-z-]*)`)
	// running is a call of go with a package of the tree.
	running = regexp.MustCompile(`\bgo (?:run|test) .*?\./([a-z0-9/]*)`)
)

// written are all documents of the tree, from this directory.
func written(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".lab", "bin", "testdata"}, entry.Name()):
			return fs.SkipDir
		case filepath.Ext(name) == ".md":
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 10 {
		t.Fatalf("only %d documents were found", len(names))
	}
	return names
}

// anchor is what a link to a section is called: small letters, hyphens for
// spaces, no punctuation.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
			return r
		}
		return -1
	}, strings.ToLower(title))
}

// Links within the tree lead to files, and to sections, that are there.
func TestLinksResolve(t *testing.T) {
	found := 0
	for _, document := range written(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, document), ""), -1) {
			if strings.Contains(m[1], ":") {
				continue // not of this tree
			}
			found++
			name, section, _ := strings.Cut(m[1], "#")
			to := document
			if name != "" {
				to = filepath.Join(filepath.Dir(document), name)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s leads nowhere", document, m[1])
				continue
			}
			if section != "" && !slices.Contains(sections(t, to), section) {
				t.Errorf("%s: %s has no section %s", document, to, section)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links were found", found)
	}
}

// sections are the anchors of a document.
func sections(t *testing.T, document string) (anchors []string) {
	t.Helper()
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(read(t, document), ""), -1) {
		anchors = append(anchors, anchor(m[1]))
	}
	return anchors
}

// Files and directories that prose names are there.
func TestNamedFilesExist(t *testing.T) {
	found := 0
	for _, document := range written(t) {
		for _, m := range quoted.FindAllStringSubmatch(fence.ReplaceAllString(read(t, document), ""), -1) {
			name := m[1]
			if !path.MatchString(name) || !ours(name) || mention.MatchString(m[0]) {
				continue
			}
			found++
			_, fromRoot := os.Stat(filepath.Join("..", name))
			_, fromHere := os.Stat(filepath.Join(filepath.Dir(document), name))
			if fromRoot != nil && fromHere != nil {
				t.Errorf("%s: there is no %s", document, name)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d names were found", found)
	}
}

// ours reports whether a path begins in this tree.
func ours(name string) bool {
	first, _, below := strings.Cut(name, "/")
	info, err := os.Stat(filepath.Join("..", first))
	return err == nil && (!below || info.IsDir())
}

// What documents have make do, it can do.
func TestNamedTargetsExist(t *testing.T) {
	var targets []string
	for _, m := range target.FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		targets = append(targets, m[1])
	}
	found := 0
	for _, document := range written(t) {
		for _, piece := range code(read(t, document)) {
			for _, m := range making.FindAllStringSubmatch(piece, -1) {
				found++
				if !slices.Contains(targets, m[1]) {
					t.Errorf("%s: make has no %s", document, m[1])
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d calls of make were found", found)
	}
}

// Packages that documents have go run or test are there.
func TestNamedPackagesExist(t *testing.T) {
	found := 0
	for _, document := range written(t) {
		for _, piece := range code(read(t, document)) {
			for _, m := range running.FindAllStringSubmatch(piece, -1) {
				found++
				if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
					t.Errorf("%s: there is no package in %s", document, m[1])
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d calls of go were found", found)
	}
}

// code is what stands as code in a document, in pieces: lines of blocks, and
// what is quoted in prose, on one line each.
func code(text string) (pieces []string) {
	for _, block := range fence.FindAllString(text, -1) {
		pieces = append(pieces, strings.Split(block, "\n")...)
	}
	prose := fence.ReplaceAllString(text, "")
	for _, line := range indented.FindAllString(prose, -1) {
		pieces = append(pieces, strings.TrimSpace(line))
	}
	for _, m := range quoted.FindAllStringSubmatch(indented.ReplaceAllString(prose, ""), -1) {
		pieces = append(pieces, strings.Join(strings.Fields(m[1]), " "))
	}
	return pieces
}
