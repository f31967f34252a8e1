package testpmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// screen is a terminal of so many columns, as far as the editor uses one: it
// keeps the cursor on a row that has just been filled up.
type screen struct {
	columns  int
	cells    [][]rune
	row, col int
	pending  bool // the row is full, and the next character goes to the next
}

func (s *screen) Write(b []byte) (int, error) {
	text := []rune(string(b))
	for len(text) > 0 {
		if text[0] == '\x1b' {
			text = s.escape(text[2:])
			continue
		}
		s.put(text[0])
		text = text[1:]
	}
	return len(b), nil
}

func (s *screen) put(char rune) {
	switch char {
	case '\r':
		s.col, s.pending = 0, false
	case '\n':
		s.row, s.col, s.pending = s.row+1, 0, false
	default:
		if s.pending {
			s.row, s.col, s.pending = s.row+1, 0, false
		}
		for len(s.cells) <= s.row {
			s.cells = append(s.cells, []rune(strings.Repeat(" ", s.columns)))
		}
		s.cells[s.row][s.col] = char
		if s.col++; s.col == s.columns {
			s.col, s.pending = s.columns-1, true
		}
	}
}

// escape obeys what stands behind "ESC [".
func (s *screen) escape(text []rune) []rune {
	n := 0
	for text[0] >= '0' && text[0] <= '9' {
		n, text = 10*n+int(text[0]-'0'), text[1:]
	}
	s.pending = s.pending && text[0] == 'J'
	switch text[0] {
	case 'A':
		s.row -= n
	case 'B':
		s.row += n
	case 'C':
		s.col += n
	case 'J':
		for r := s.row; r < len(s.cells); r++ {
			for i := range s.cells[r] {
				if r > s.row || i >= s.col {
					s.cells[r][i] = ' '
				}
			}
		}
	default:
		panic(fmt.Sprintf("escape sequence %q", text[0]))
	}
	return text[1:]
}

func (s *screen) String() string {
	var rows strings.Builder
	for _, row := range s.cells {
		rows.WriteString(string(row))
	}
	return strings.TrimRight(rows.String(), " ")
}

func newEditor(out io.Writer, columns int, typed string) *editor {
	return &editor{
		keys: keyReader{in: strings.NewReader(typed)}, out: out, columns: func() int { return columns },
		complete: func(string) []string { return nil }, describe: func(string) string { return "" },
	}
}

// What is typed at the end of a line comes back as it is, on one line.
func TestEditorEchoesLongLines(t *testing.T) {
	long := "port config 0 rss-hash-key ipv4 " + strings.Repeat("5a", 100)
	var out strings.Builder
	line, err := newEditor(&out, 80, long+"\n").read()
	if line != long || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if want := Prompt + long + "\n"; out.String() != want {
		t.Errorf("echo %q, want %q", out.String(), want)
	}
}

func TestEditorKeys(t *testing.T) {
	for typed, want := range map[string]string{
		"abc\r":                       "abc",
		"abX\x7fc\n":                  "abc",
		"abX\bc\n":                    "abc",
		"bc\x01a\n":                   "abc",
		"bc\x1b[Ha\n":                 "abc",
		"bc\x1bOHa\x05d\n":            "abcd",
		"ac\x02b\n":                   "abc",
		"ac\x1b[Db\x1b[Cd\n":          "abcd",
		"junk\x15abc\n":               "abc",
		"abcjunk\x02\x02\x02\x02\v\n": "abc",
		"one two  \x17abc\n":          "one abc",
		"xabc\x01\x04\n":              "abc",
		"xabc\x01\x1b[3~\n":           "abc",
		"abc\x1b[99;99zd\n":           "abcd",
		"a\x1bxb\n":                   "ab",
		"a\x00\x06b\n":                "ab",
		"gr\u00fc\u00df\x7fn\n":       "gr\u00fcn",
	} {
		if line, err := newEditor(io.Discard, 80, typed).read(); line != want || err != nil {
			t.Errorf("%q gives %q, %v, want %q", typed, line, err, want)
		}
	}
	for typed, want := range map[string]error{"\x03": errInterrupted, "\x04": io.EOF, "": io.EOF, "abc": io.EOF} {
		if line, err := newEditor(io.Discard, 80, typed).read(); !errors.Is(err, want) {
			t.Errorf("%q gives %q, %v", typed, line, err)
		}
	}
	if line, err := newEditor(io.Discard, 80, "nonsense\x03").read(); line != "" || err != nil {
		t.Errorf("Ctrl-C behind a line gives %q, %v", line, err)
	}
}

func TestEditorHistory(t *testing.T) {
	e := newEditor(io.Discard, 80, "one\n  \ntwo\ntwo\n\x1b[A\n\x1b[A\x1b[A\n draft\x10\x10\x10\x0e\x0e\x0e!\n")
	for _, want := range []string{"one", "  ", "two", "two", "two", "one", " draft!"} {
		if line, err := e.read(); line != want || err != nil {
			t.Errorf("%q, %v, want %q", line, err, want)
		}
	}
	if diff := cmp.Diff([]string{"one", "two", "one", " draft!"}, e.history); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHistoryIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dir", "history")
	if got := readHistory(file); len(got) != 0 {
		t.Errorf("%q", got)
	}
	var lines []string
	for i := range maxHistory + 5 {
		lines = append(lines, fmt.Sprint("set burst ", i))
	}
	writeHistory(file, lines)
	if diff := cmp.Diff(lines[5:], readHistory(file)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	writeHistory("", lines)
	writeHistory("/proc/nowhere/history", lines)
}

// After every key the screen shows the prompt and the line, with the cursor
// where the next character goes, on terminals of any width.
func TestEditorScreen(t *testing.T) {
	keys := []key{keyHome, keyEnd, keyLeft, keyRight, keyErase, keyDelete, keyKill, keyKillWord, keyUp, keyDown, 'a', 'b', 'c', ' ', 'd', 'e', 'f', 'g'}
	rapid.Check(t, func(t *rapid.T) {
		s := &screen{columns: rapid.IntRange(10, 30).Draw(t, "columns")}
		e := newEditor(s, s.columns, "")
		e.history = []string{"short", strings.Repeat("long ", 12)}
		e.recall = len(e.history)
		e.print(Prompt)
		for _, k := range rapid.SliceOfN(rapid.SampledFrom(keys), 0, 120).Draw(t, "keys") {
			e.press(k)
			if got, want := s.String(), strings.TrimRight(Prompt+string(e.line), " "); got != want {
				t.Fatalf("key %d: the screen shows\n%q, want\n%q", k, got, want)
			}
			at := s.row*s.columns + s.col
			if s.pending {
				at++
			}
			if want := len(Prompt) + e.cursor; at != want {
				t.Fatalf("key %d: the cursor is at %d, want %d", k, at, want)
			}
		}
	})
}

func TestComplete(t *testing.T) {
	b := newBench(t, 2, nil)
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "commands"), nil, 0o600)
	os.Mkdir(filepath.Join(dir, "common"), 0o700)
	for line, want := range map[string][]string{
		"sto":                           {"stop "},
		"st":                            {"start ", "stop "},
		"start ":                        {"start tx_first "},
		"csum set tcp ":                 {"csum set tcp hw ", "csum set tcp sw "},
		"port config 0 tx_offload tcp_": {"port config 0 tx_offload tcp_cksum ", "port config 0 tx_offload tcp_tso "},
		"port start ":                   {"port start all ", "port start 0 ", "port start 1 "},
		"tso show ":                     {"tso show 0 ", "tso show 1 "},
		"quit ":                         nil,
		"nonsense ":                     nil,
		"load " + dir + "/com":          {"load " + dir + "/commands ", "load " + dir + "/common/"},
		"load /nonexistent/":            nil,
	} {
		if diff := cmp.Diff(want, b.complete(line)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", line, diff)
		}
	}
}

func TestEditorCompletesAndDescribes(t *testing.T) {
	b := newBench(t, 1, nil)
	var out strings.Builder
	e := newEditor(&out, 80, "sto\t\nst\tar\t\nset fwd csu\t\ncsum set tcp \thw 0\ntso ?show 0\n")
	e.complete, e.describe = b.complete, b.describe
	for _, want := range []string{"stop ", "start ", "set fwd csum ", "csum set tcp hw 0", "tso show 0"} {
		if line, err := e.read(); line != want || err != nil {
			t.Errorf("%q, %v, want %q", line, err, want)
		}
	}
	for _, want := range []string{
		"testpmd> st\n start  stop\ntestpmd> st",
		"testpmd> csum set tcp \n hw  sw\ntestpmd> csum set tcp ",
		"testpmd> tso \n tso set (segsize) (port_id)\n    ",
		"\n tso show (port_id)\n    Show the size of TCP segments.\ntestpmd> tso ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q does not stand in\n%s", want, out.String())
		}
	}
	if got := b.describe("nonsense "); got != " nothing goes on like that\n" {
		t.Errorf("%q", got)
	}
}

func FuzzEditor(f *testing.F) {
	f.Add("show port info 0\r\x1b[A\x1b[D\x7f\t?\n", uint8(80))
	f.Add("\x1b[\x1b[1;5C\xff\xfe\x00\n", uint8(1))
	f.Fuzz(func(t *testing.T, typed string, columns uint8) {
		e := newEditor(io.Discard, max(int(columns), 1), typed)
		for {
			if _, err := e.read(); err == io.EOF {
				return
			}
		}
	})
}
