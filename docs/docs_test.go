// Package docs_test holds the documents to what they say about the tree.
package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents are those that name tests as their evidence.
var documents = []string{"FEATURES.md", "field-bugs.md"}

var (
	// mention is a test as the documents write it: directory, dot, name.
	mention = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`")
	// anyName is whatever looks like the name of a test, however it is written.
	anyName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*`)
	// declaration is the head of a test function.
	declaration = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)\(`)
	// item is the heading of a field bug, bit a named feature bit in Go, row one
	// in the table.
	item = regexp.MustCompile(`(?m)^## B(\d\d) \S`)
	bit  = regexp.MustCompile(`(\d+): +"([A-Z0-9_]+)"`)
	row  = regexp.MustCompile(`(?m)^\| (\d+) \| ([A-Z0-9_]+) \|`)
)

// read reads a file of the tree by its name from this directory.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testsIn are the test functions of the package in a directory, given from the
// root of the tree.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		for _, m := range declaration.FindAllStringSubmatch(read(t, file), -1) {
			found[m[1]] = true
		}
	}
	return found
}

// A test that a document names exists, in the package that it names.
func TestNamedTestsExist(t *testing.T) {
	packages := map[string]map[string]bool{}
	for _, document := range written(t) {
		for _, m := range mention.FindAllStringSubmatch(read(t, document), -1) {
			dir, name := m[1], m[2]
			if packages[dir] == nil {
				packages[dir] = testsIn(t, dir)
			}
			if !packages[dir][name] {
				t.Errorf("%s: there is no %s in %s", document, name, dir)
			}
		}
	}
	for _, document := range documents {
		text := read(t, document)
		if n := len(mention.FindAllString(text, -1)); n < 50 {
			t.Errorf("%s: only %d mentions of tests were found", document, n)
		}
		for _, name := range anyName.FindAllString(mention.ReplaceAllString(text, ""), -1) {
			t.Errorf("%s: %s is not written as `package.%s`", document, name, name)
		}
	}
}

// field-bugs.md has the items B01 to B30, each once and in order.
func TestEveryFieldBugIsTold(t *testing.T) {
	var got, want []string
	for _, m := range item.FindAllStringSubmatch(read(t, "field-bugs.md"), -1) {
		got = append(got, m[1])
	}
	for n := 1; n <= 30; n++ {
		want = append(want, fmt.Sprintf("%02d", n))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("items %v, want %v", got, want)
	}
}

// FEATURES.md has a row for every feature bit that has a name, under its number.
func TestEveryFeatureHasARow(t *testing.T) {
	rows := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(read(t, "FEATURES.md"), -1) {
		if rows[m[1]] != "" {
			t.Errorf("bit %s has two rows", m[1])
		}
		rows[m[1]] = m[2]
	}
	bits := bit.FindAllStringSubmatch(read(t, "../virtio/features.go"), -1)
	if len(bits) < 40 {
		t.Fatalf("only %d feature names were found", len(bits))
	}
	for _, m := range bits {
		if rows[m[1]] != m[2] {
			t.Errorf("bit %s is %s, its row says %q", m[1], m[2], rows[m[1]])
		}
	}
	if len(rows) != len(bits) {
		t.Errorf("%d rows for %d features", len(rows), len(bits))
	}
}
