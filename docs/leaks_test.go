package docs_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// The tests of every package end with a look for goroutines that they left behind.
func TestEveryPackageLooksForLeaks(t *testing.T) {
	looks := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			text := read(t, path)
			dir := filepath.Dir(path)
			looks[dir] = looks[dir] || strings.Contains(text, "func TestMain(") && strings.Contains(text, "goleak.")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(looks) < 20 {
		t.Errorf("only %d packages with tests were found", len(looks))
	}
	for dir, does := range looks {
		if !does {
			t.Errorf("%s: no TestMain with goleak.VerifyTestMain", dir)
		}
	}
}
