package report

import (
	"errors"
	"fmt"
	"strings"
)

// The marks between which a page has the figures of the last run.
const (
	BeginMark = "<!-- bench:begin -->"
	EndMark   = "<!-- bench:end -->"
)

// ErrMarks is the error about a page in which nothing can be replaced.
var ErrMarks = errors.New("marks in the page")

// Splice replaces what stands between BeginMark and EndMark, which stay, by a
// section. Each has to stand in the page once.
func Splice(page, section string) (string, error) {
	for _, mark := range []string{BeginMark, EndMark} {
		if n := strings.Count(page, mark); n != 1 {
			return "", fmt.Errorf("%w: %q stands there %d times, once is wanted", ErrMarks, mark, n)
		}
	}
	before, rest, _ := strings.Cut(page, BeginMark)
	_, after, ordered := strings.Cut(rest, EndMark)
	if !ordered {
		return "", fmt.Errorf("%w: %q stands before %q", ErrMarks, EndMark, BeginMark)
	}
	return before + BeginMark + "\n\n" + strings.TrimSpace(section) + "\n\n" + EndMark + after, nil
}
