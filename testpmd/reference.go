package testpmd

import (
	"fmt"
	"strings"
)

// Reference is the manual of the console's commands in Markdown, made from the
// table of commands.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceIntro)
	commands := commandTable()
	for _, s := range sections {
		var rows []string
		for _, c := range commands {
			if c.section == s && c.help != "" {
				rows = append(rows, fmt.Sprintf("- `%s`  \n  %s\n", c.pattern, strings.ReplaceAll(c.help, "\n", " ")))
			}
		}
		if len(rows) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s", strings.TrimSuffix(s.title, ":"), s.about, strings.Join(rows, ""))
		}
	}
	return b.String()
}

const referenceIntro = `# The commands of the console

Words are typed as they stand; those in parentheses stand for a value, or for one of a few words with | between them. A
` + "`#`" + ` begins a comment. Answers have the words of DPDK's testpmd, so that scripts made for it go on working;
what is there beyond it says so. Every ` + "`show`" + ` command takes ` + "`json`" + ` as a last word.

This page is made from the table of commands; ` + "`help all`" + ` prints the same at the prompt.
`
