package testpmd

import (
	"net"
	"strconv"
	"strings"
)

// The three answers to a line that is not a command.
const (
	notFound  = "Command not found"
	badArgs   = "Bad arguments"
	ambiguous = "Ambiguous command"
)

// args are the words of a line that matched a command.
type args []string

// num is the number at word i, which the pattern has checked to be one.
func (a args) num(i int) uint64 {
	n, _ := parseNumber(a[i])
	return n
}

// on reports whether word i is "on".
func (a args) on(i int) bool { return a[i] == "on" }

// splitLine gives the words of a line without its comment.
func splitLine(line string) []string {
	line, _, _ = strings.Cut(line, "#")
	return strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' })
}

// find gives the command that all of words match, or the answer for people
// when there is none: nothing begins like that, or something does but goes on
// in another way, or two commands match.
func find(commands []*command, words []string) (*command, string) {
	var found *command
	answer := notFound
	for _, cmd := range commands {
		switch n := cmd.matching(words); {
		case n == len(words) && n == len(cmd.tokens):
			if found != nil {
				return nil, ambiguous
			}
			found = cmd
		case n > 0:
			answer = badArgs
		}
	}
	if found != nil {
		return found, ""
	}
	return nil, answer
}

// matching counts the words that match the command's tokens from the front.
func (cmd *command) matching(words []string) int {
	n := 0
	for n < len(words) && n < len(cmd.tokens) && cmd.tokens[n].accepts(words[n]) {
		n++
	}
	return n
}

// token is one place in a pattern. Words must be written in full.
type token struct {
	words  []string          // words that fit, which completion offers
	accept func(string) bool // others that fit; nil: none
}

func (t token) accepts(word string) bool {
	for _, w := range t.words {
		if w == word {
			return true
		}
	}
	return t.accept != nil && t.accept(word)
}

// parsePattern makes tokens of a pattern as help shows it: words, choices
// such as "(hw|sw)", and values such as "(port_id)", which stand in values.
func parsePattern(pattern string, values map[string]token) []token {
	var tokens []token
	for _, field := range strings.Fields(pattern) {
		if t, ok := values[field]; ok {
			tokens = append(tokens, t)
			continue
		}
		field = strings.TrimSuffix(strings.TrimPrefix(field, "("), ")")
		tokens = append(tokens, token{words: strings.Split(field, "|")})
	}
	return tokens
}

// complete gives every line that line can be completed to by one word.
func complete(commands []*command, line string) []string {
	words := splitLine(line)
	last := ""
	if len(words) > 0 && !strings.HasSuffix(line, " ") {
		last = words[len(words)-1]
		words = words[:len(words)-1]
	}
	head := strings.TrimSuffix(line, last)
	seen := map[string]bool{}
	var lines []string
	for _, cmd := range commands {
		if len(cmd.tokens) <= len(words) || cmd.matching(words) < len(words) {
			continue
		}
		for _, w := range cmd.tokens[len(words)].words {
			if strings.HasPrefix(w, last) && !seen[w] {
				seen[w] = true
				lines = append(lines, head+w+" ")
			}
		}
	}
	return lines
}

// parseNumber reads a number as testpmd writes them: decimal, or with 0x, 0b
// or 0 in front.
func parseNumber(word string) (uint64, bool) {
	if strings.ContainsAny(word, "_oO") {
		return 0, false
	}
	n, err := strconv.ParseUint(word, 0, 64)
	return n, err == nil
}

func isNumber(word string) bool {
	_, ok := parseNumber(word)
	return ok
}

// ParseList reads numbers separated by commas, each at most 65535.
func ParseList(word string) ([]int, bool) {
	var list []int
	for _, item := range strings.Split(word, ",") {
		n, err := strconv.ParseUint(item, 10, 16)
		if err != nil {
			return nil, false
		}
		list = append(list, int(n))
	}
	return list, true
}

func isList(word string) bool {
	_, ok := ParseList(word)
	return ok
}

// ParseMAC reads an Ethernet address written as six bytes.
func ParseMAC(word string) (mac [6]byte, ok bool) {
	addr, err := net.ParseMAC(word)
	if err != nil || len(addr) != len(mac) {
		return mac, false
	}
	return [6]byte(addr), true
}

// formatMAC writes an Ethernet address as testpmd does.
func formatMAC(mac []byte) string { return strings.ToUpper(net.HardwareAddr(mac).String()) }
