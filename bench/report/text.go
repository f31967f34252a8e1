package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteText writes the report for a terminal, its columns aligned.
func (r Report) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, line := range r.origin() {
		fmt.Fprintln(out, line)
	}
	for _, s := range r.sheets(emphasis{}) {
		s.writeText(out)
	}
	for _, list := range r.summary() {
		fmt.Fprintf(out, "\n%s\n", list.title)
		for _, item := range list.items {
			fmt.Fprintf(out, "  %s\n", item)
		}
	}
	return out.Flush()
}

func (s sheet) writeText(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", s.title)
	for _, note := range s.notes {
		fmt.Fprintln(w, note)
	}
	widths := make([]int, len(s.head))
	for _, line := range append([][]string{s.head}, s.lines...) {
		for i, word := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(word))
		}
	}
	for _, line := range append([][]string{s.head}, s.lines...) {
		var b strings.Builder
		for i, word := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(word))
			if i < s.left {
				b.WriteString("  " + word + space)
			} else {
				b.WriteString("  " + space + word)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}
