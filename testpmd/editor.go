package testpmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// editor reads lines that people type at a terminal. Characters that are typed
// at the end of the line are shown as they are and nothing else is, so that a
// program in the place of people reads back what it typed, however long the line
// is and however narrow the terminal.
type editor struct {
	keys     keyReader
	out      io.Writer
	columns  func() int                 // of the terminal
	complete func(line string) []string // what the line can become with one more word
	describe func(line string) string   // what may follow the line

	line   []rune
	cursor int // characters in front of the cursor
	row    int // of the cursor, counted from the row of the prompt

	history []string
	recall  int    // the line of the history that is shown; len(history): none
	draft   []rune // what was typed before one of the history was shown
}

// errInterrupted says that people pressed Ctrl-C on an empty line.
var errInterrupted = errors.New("interrupted")

// maxLineLen bounds the length of a line, in characters.
const maxLineLen = 1 << 16

// read asks for a line and waits for it.
func (e *editor) read() (string, error) {
	e.line, e.cursor, e.row = nil, 0, 0
	e.recall, e.draft = len(e.history), nil
	e.print(Prompt)
	for {
		k, err := e.keys.next()
		if err != nil {
			return "", err
		}
		switch k {
		case keyEnter, keyNewline:
			e.moveTo(len(e.line))
			e.print("\n")
			line := string(e.line)
			e.remember(line)
			return line, nil
		case keyInterrupt:
			e.moveTo(len(e.line))
			e.print("^C\n")
			if len(e.line) == 0 {
				return "", errInterrupted
			}
			return "", nil
		case keyDelete:
			if len(e.line) == 0 {
				return "", io.EOF
			}
		}
		e.press(k)
	}
}

// press does what the key is for.
func (e *editor) press(k key) {
	switch k {
	case keyHome:
		e.moveTo(0)
	case keyEnd:
		e.moveTo(len(e.line))
	case keyLeft:
		e.moveTo(max(e.cursor-1, 0))
	case keyRight:
		e.moveTo(min(e.cursor+1, len(e.line)))
	case keyErase, keyBackspace:
		e.cut(e.cursor-1, e.cursor)
	case keyDelete:
		e.cut(e.cursor, e.cursor+1)
	case keyKill:
		e.cut(e.cursor, len(e.line))
	case keyDiscard:
		e.cut(0, e.cursor)
	case keyKillWord:
		e.cut(e.wordStart(), e.cursor)
	case keyUp:
		e.show(e.recall - 1)
	case keyDown:
		e.show(e.recall + 1)
	case keyRefresh:
		e.print(clearScreen)
		e.row = 0
		e.redraw()
	case keyTab:
		e.completeWord()
	case keyHelp:
		e.below(e.describe(string(e.line)))
	default:
		if k >= firstShown && unicode.IsPrint(rune(k)) && len(e.line) < maxLineLen {
			e.insert(rune(k))
		}
	}
}

func (e *editor) insert(char rune) {
	e.line = slices.Insert(e.line, e.cursor, char)
	e.cursor++
	if e.cursor == len(e.line) {
		e.print(string(char))
		e.row = e.rowOf(e.cursor)
		return
	}
	e.redraw()
}

// cut takes characters out of the line.
func (e *editor) cut(from, to int) {
	if from < 0 || to > len(e.line) || from == to {
		return
	}
	e.line = slices.Delete(e.line, from, to)
	e.cursor = from
	e.redraw()
}

// wordStart is where the word in front of the cursor begins.
func (e *editor) wordStart() int {
	i := e.cursor
	for i > 0 && e.line[i-1] == ' ' {
		i--
	}
	for i > 0 && e.line[i-1] != ' ' {
		i--
	}
	return i
}

// replace puts another line in the place of this one.
func (e *editor) replace(line []rune) {
	e.line, e.cursor = slices.Clone(line), len(line)
	e.redraw()
}

// completeWord completes the line as far as there is one way to do so, or lists
// the ways.
func (e *editor) completeWord() {
	if e.cursor != len(e.line) {
		return
	}
	lines := e.complete(string(e.line))
	if len(lines) == 0 {
		return
	}
	if common := commonStart(lines); len(common) > len(string(e.line)) {
		for _, char := range strings.TrimPrefix(common, string(e.line)) {
			e.insert(char)
		}
		return
	}
	var words []string
	for _, line := range lines {
		fields := strings.Fields(line)
		words = append(words, fields[len(fields)-1])
	}
	e.below(" " + strings.Join(words, "  ") + "\n")
}

// commonStart is what all lines begin with.
func commonStart(lines []string) string {
	common := lines[0]
	for _, line := range lines[1:] {
		for !strings.HasPrefix(line, common) {
			common = common[:len(common)-1]
		}
	}
	return common
}

// below shows text under the line, and the line again under it.
func (e *editor) below(text string) {
	at := e.cursor
	e.moveTo(len(e.line))
	e.print("\n" + text + Prompt + string(e.line))
	e.cursor = len(e.line)
	e.row = e.rowOf(e.cursor)
	e.moveTo(at)
}

// remember adds a line to the history, unless it is the last one already.
func (e *editor) remember(line string) {
	if n := len(e.history); strings.TrimSpace(line) != "" && (n == 0 || e.history[n-1] != line) {
		e.history = append(e.history, line)
	}
}

// show shows a line of the history; the one behind the last is what was typed.
func (e *editor) show(i int) {
	if i < 0 || i > len(e.history) {
		return
	}
	if e.recall == len(e.history) {
		e.draft = e.line
	}
	e.recall = i
	if i == len(e.history) {
		e.replace(e.draft)
		return
	}
	e.replace([]rune(e.history[i]))
}

// rowOf is the row that the cursor is on with so many characters in front of
// it. A terminal keeps it on a row that has just been filled up until there is
// more, but only where the line ends.
func (e *editor) rowOf(chars int) int {
	cells := len(Prompt) + chars
	row := cells / e.columns()
	if chars == len(e.line) && cells%e.columns() == 0 {
		row--
	}
	return row
}

// redraw draws prompt and line again.
func (e *editor) redraw() {
	at := e.cursor
	e.print(upRows(e.row) + "\r\x1b[J" + Prompt + string(e.line))
	e.cursor = len(e.line)
	e.row = e.rowOf(e.cursor)
	e.moveTo(at)
}

// moveTo moves the cursor behind so many characters.
func (e *editor) moveTo(chars int) {
	if chars == e.cursor {
		return
	}
	if chars == len(e.line) {
		// Writing the rest leaves the terminal as typing it would.
		e.print(string(e.line[e.cursor:]))
		e.cursor, e.row = chars, e.rowOf(chars)
		return
	}
	row, column := e.rowOf(chars), (len(Prompt)+chars)%e.columns()
	e.print(upRows(e.row-row) + "\r" + right(column))
	e.cursor, e.row = chars, row
}

// upRows and right move the cursor; a negative number of rows moves it down.
func upRows(n int) string {
	switch {
	case n > 0:
		return fmt.Sprintf("\x1b[%dA", n)
	case n < 0:
		return fmt.Sprintf("\x1b[%dB", -n)
	}
	return ""
}

func right(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dC", n)
}

func (e *editor) print(text string) { io.WriteString(e.out, text) }
