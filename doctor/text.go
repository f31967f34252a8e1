package doctor

import (
	"fmt"
	"io"
	"strings"
)

// marks are the words in front of findings.
var marks = map[Level]string{OK: "OK", Warn: "WARN", Fail: "FAIL"}

// WriteText writes the report for people: a line a finding, the command that
// mends it below, and a summary at the end.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString("Machine\n")
	writeFindings(&b, r.Machine)
	for _, f := range r.Functions {
		b.WriteString("\n" + f.title() + "\n")
		writeFindings(&b, f.Findings)
	}
	b.WriteString("\n" + r.Summary + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// title names the function and what holds it.
func (f Function) title() string {
	s := fmt.Sprintf("Function %s '%s'", f.Address, f.Device)
	if f.Driver != "" {
		s += ", driver " + f.Driver
	}
	if f.Group >= 0 {
		s += fmt.Sprintf(", IOMMU group %d", f.Group)
		if len(f.Members) > 0 {
			s += " with " + strings.Join(f.Members, ", ")
		}
	}
	if len(f.Interfaces) > 0 {
		s += ", interface " + strings.Join(f.Interfaces, ", ")
	}
	return s
}

func writeFindings(b *strings.Builder, findings []Finding) {
	for _, f := range findings {
		text := f.Text
		if f.Subject != "" {
			text = f.Subject + ": " + text
		}
		fmt.Fprintf(b, "  %-4s  %-10s  %s\n", marks[f.Level], f.Check, text)
		if f.Mend != "" {
			fmt.Fprintf(b, "                    mend: %s\n", f.Mend)
		}
	}
}
