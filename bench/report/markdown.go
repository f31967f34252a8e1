package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes the report as a section of a page, its headings of the third
// level. Pictures are by the name of the table that they show: their addresses, as
// the page has to write them; a table without one gets none.
func (r Report) WriteMarkdown(w io.Writer, pictures map[string]string) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s\n", strings.Join(escaped(r.origin()), "  \n"))
	var names []string
	for _, t := range r.Tables {
		names = append(names, t.Name)
	}
	for _, t := range r.Latencies {
		names = append(names, t.Name)
	}
	for i, s := range r.sheets(emphasis{"**", "**"}) {
		s.writeMarkdown(out, pictures[names[i]])
	}
	for _, list := range r.summary() {
		fmt.Fprintf(out, "\n### %s\n\n", list.title)
		for _, item := range escaped(list.items) {
			fmt.Fprintf(out, "- %s\n", item)
		}
	}
	return out.Flush()
}

func (s sheet) writeMarkdown(w io.Writer, picture string) {
	fmt.Fprintf(w, "\n### %s\n\n", s.title)
	for _, note := range s.notes {
		fmt.Fprintf(w, "%s\n\n", note)
	}
	rule := make([]string, len(s.head))
	for i := range rule {
		rule[i] = "---:"
		if i < s.left {
			rule[i] = "---"
		}
	}
	for i, line := range append([][]string{s.head, rule}, s.lines...) {
		if i != 1 {
			line = escaped(line)
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
	}
	if picture != "" {
		fmt.Fprintf(w, "\n![%s](%s)\n", s.title, picture)
	}
}

// markdown takes from text what would end a line, a cell of a table, or begin markup
// that nobody meant.
var markdown = strings.NewReplacer("\n", " ", "|", `\|`, "<", "&lt;", ">", "&gt;")

func escaped(lines []string) []string {
	clean := make([]string, len(lines))
	for i, line := range lines {
		clean[i] = markdown.Replace(line)
	}
	return clean
}
