package testpmd

import (
	"math"
	"math/bits"
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
		case n == len(words) && cmd.ends(n):
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
	for n < len(words) && cmd.tokenAt(n).accepts(words[n]) {
		n++
	}
	return n
}

// tokenAt is the token for word i. Behind the last one no word fits, unless it
// is one that takes all the rest.
func (cmd *command) tokenAt(i int) token {
	if i < len(cmd.tokens) {
		return cmd.tokens[i]
	}
	if last := cmd.tokens[len(cmd.tokens)-1]; last.rest {
		return last
	}
	return token{}
}

// ends reports whether a line may end behind n words.
func (cmd *command) ends(n int) bool {
	return n == len(cmd.tokens) || n > len(cmd.tokens) && cmd.tokenAt(n).rest
}

// token is one place in a pattern. Words must be written in full.
type token struct {
	words  []string          // words that fit, which completion offers
	accept func(string) bool // others that fit; nil: none
	rest   bool              // the last token, for as many words as come
	kind   tokenKind         // what completion offers beside words
}

// tokenKind says what completion can find out by itself.
type tokenKind int

const (
	anyValue tokenKind = iota
	portNumber
	fileName
)

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

// list reads up to most numbers separated by commas, and complains in
// testpmd's words about a list that is none.
func (c *Console) list(what, word string, most int) ([]int, bool) {
	for i, r := range word {
		switch {
		case r >= '0' && r <= '9':
		case r != ',':
			c.errorf("character %c is not a decimal digit\n", r)
			return nil, false
		case i == 0 || word[i-1] == ',':
			c.errorf("No valid value before comma\n")
			return nil, false
		}
	}
	if strings.HasSuffix(word, ",") {
		c.errorf("No valid value behind comma\n")
		return nil, false
	}
	items := strings.Split(word, ",")
	if len(items) > most {
		c.errorf("Number of %s = %d > %d (maximum items)\n", what, len(items), most)
		return nil, false
	}
	var list []int
	for _, item := range items {
		n, err := strconv.ParseUint(item, 10, 31)
		if err != nil {
			c.errorf("%s: %q is not a number <= %d\n", what, item, math.MaxInt32)
			return nil, false
		}
		list = append(list, int(n))
	}
	return list, true
}

// maskBits gives the numbers of the bits that are set in a mask.
func maskBits(mask uint64) []int {
	var list []int
	for ; mask != 0; mask &= mask - 1 {
		list = append(list, bits.TrailingZeros64(mask))
	}
	return list
}

// ParseMAC reads an Ethernet address written as six bytes.
func ParseMAC(word string) (mac [6]byte, ok bool) {
	addr, err := net.ParseMAC(word)
	if err != nil || len(addr) != len(mac) {
		return mac, false
	}
	return [6]byte(addr), true
}

func isMAC(word string) bool {
	_, ok := ParseMAC(word)
	return ok
}

// formatMAC writes an Ethernet address as testpmd does.
func formatMAC(mac []byte) string { return strings.ToUpper(net.HardwareAddr(mac).String()) }
