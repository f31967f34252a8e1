package testpmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// complete gives every line that line can be completed to by one word.
func (c *Console) complete(line string) []string {
	words, last := splitLast(line)
	head := strings.TrimSuffix(line, last)
	seen := map[string]bool{}
	var lines []string
	for _, cmd := range c.commands {
		if cmd.matching(words) < len(words) {
			continue
		}
		for _, w := range c.candidates(cmd.tokenAt(len(words)), last) {
			if strings.HasPrefix(w, last) && !seen[w] {
				seen[w] = true
				lines = append(lines, head+w)
			}
		}
	}
	return lines
}

// splitLast gives the words in front of the one that is being typed, and that
// one.
func splitLast(line string) (words []string, last string) {
	words = splitLine(line)
	if len(words) > 0 && !strings.HasSuffix(line, " ") {
		last = words[len(words)-1]
		words = words[:len(words)-1]
	}
	return words, last
}

// candidates are the words that completion offers for a token, with a space
// behind those that are whole.
func (c *Console) candidates(t token, start string) []string {
	var list []string
	for _, w := range t.words {
		list = append(list, w+" ")
	}
	switch t.kind {
	case portNumber:
		for _, p := range c.openPorts() {
			list = append(list, fmt.Sprintf("%d ", p.id))
		}
	case fileName:
		list = append(list, fileNames(start)...)
	}
	return list
}

// fileNames lists the files whose names begin so; names of directories end in a
// slash and can be completed further.
func fileNames(start string) []string {
	dir, _ := filepath.Split(start)
	entries, _ := os.ReadDir(filepath.Join(".", dir))
	if filepath.IsAbs(start) {
		entries, _ = os.ReadDir(dir)
	}
	var names []string
	for _, entry := range entries {
		name := dir + entry.Name()
		if strings.ContainsAny(name, " \t#") {
			continue // no line can hold it
		}
		if entry.IsDir() {
			names = append(names, name+"/")
		} else {
			names = append(names, name+" ")
		}
	}
	return names
}

// describe says what may follow a line: the commands that go on from it.
func (c *Console) describe(line string) string {
	words, last := splitLast(line)
	var text strings.Builder
	for _, cmd := range c.commands {
		if cmd.help == "" || cmd.matching(words) < len(words) || !cmd.tokenAt(len(words)).begins(last) {
			continue
		}
		help, _, _ := strings.Cut(cmd.help, "\n")
		fmt.Fprintf(&text, " %s\n    %s\n", cmd.pattern, help)
	}
	if text.Len() == 0 {
		return " nothing goes on like that\n"
	}
	return text.String()
}

// begins reports whether a word that begins so can stand for the token.
func (t token) begins(start string) bool {
	for _, w := range t.words {
		if strings.HasPrefix(w, start) {
			return true
		}
	}
	return t.accept != nil && (start == "" || t.accept(start))
}
