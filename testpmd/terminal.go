package testpmd

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// terminal is the terminal that people sit at. Between its making and Close it
// shows nothing that the editor does not show, and hands keys over one by one.
type terminal struct {
	editor  editor
	before  unix.Termios // to give back
	working unix.Termios // while a command runs: Ctrl-C is a signal
	editing unix.Termios // while a line is typed: Ctrl-C is a key
	file    string       // of the history; "": none
}

// stdin is the descriptor of the terminal.
const stdin = 0

func newTerminal(c *Console) (*terminal, error) {
	before, err := unix.IoctlGetTermios(stdin, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	t := &terminal{before: *before, working: *before, file: c.Options.HistoryFile}
	t.working.Iflag &^= unix.ICRNL | unix.INPCK | unix.ISTRIP | unix.IXON
	t.working.Lflag &^= unix.ECHO | unix.ICANON | unix.IEXTEN
	t.working.Cc[unix.VMIN], t.working.Cc[unix.VTIME] = 1, 0
	t.editing = t.working
	t.editing.Lflag &^= unix.ISIG
	t.editor = editor{
		keys: keyReader{in: os.Stdin}, out: shared{c}, columns: columns,
		complete: c.complete, describe: c.describe, history: readHistory(t.file),
	}
	return t, t.set(&t.working)
}

// set changes the mode of the terminal. What was typed ahead stays.
func (t *terminal) set(mode *unix.Termios) error {
	return unix.IoctlSetTermios(stdin, unix.TCSETS, mode)
}

// usualColumns is the width of a terminal that does not tell.
const usualColumns = 80

func columns() int {
	size, err := unix.IoctlGetWinsize(stdin, unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return usualColumns
	}
	return int(size.Col)
}

func (t *terminal) Prompt() {}

// Echo does nothing: the editor has shown the line.
func (t *terminal) Echo(string) {}

func (t *terminal) Line() (string, error) {
	if err := t.set(&t.editing); err != nil {
		return "", err
	}
	line, err := t.editor.read()
	if err != nil {
		return "", err
	}
	return line, t.set(&t.working)
}

func (t *terminal) Close() error {
	writeHistory(t.file, t.editor.history)
	return t.set(&t.before)
}

// maxHistory is the number of lines that are kept for the next run.
const maxHistory = 1000

// readHistory reads the lines of earlier runs. A history that is not there is
// an empty one.
func readHistory(file string) []string {
	if file == "" {
		return nil
	}
	text, _ := os.ReadFile(file)
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// writeHistory keeps the lines for the next run, where that is possible: people
// lose nothing but convenience by a home that cannot be written to.
func writeHistory(file string, lines []string) {
	if file == "" {
		return
	}
	lines = lines[max(len(lines)-maxHistory, 0):]
	if os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
	}
}
