package loops

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// loop names a for statement: by its function, and by how its line begins. Where
// several begin alike, it is the first.
type loop struct {
	dir      string // of the package, from the module's root
	function string // "(*Split).Harvest"
	begins   string // "for i := range dst"
}

// facts are what the machine code of a loop has and need not have. Each is named
// with its place in the source.
type facts struct {
	calls    []string
	bounds   []string
	barriers []string
	length   int // instructions
}

// span is the lines of a function and of a loop in it.
type span struct {
	file                string
	function, statement [2]int
}

// inspect gives the facts of a loop in code, the listing of its package; root is
// where the module lies.
func inspect(root string, code listing, l loop) (facts, error) {
	s, err := l.find(root)
	if err != nil {
		return facts{}, err
	}
	f := newFlow(code[l.function])
	body := f.loopOf(s)
	if body == nil {
		return facts{}, fmt.Errorf("%s: %q is no loop of the machine code", l.function, l.begins)
	}
	return f.facts(body), nil
}

func (f *flow) facts(body []bool) (found facts) {
	for i, c := range f.code {
		if !body[i] {
			continue
		}
		found.length++
		place := fmt.Sprintf("%s:%d", filepath.Base(c.file), c.line)
		if call := c.calls(); call != "" && !strings.HasPrefix(call, "runtime.gcWriteBarrier") {
			found.calls = append(found.calls, place+" "+call)
		}
		if c.barrier() {
			found.barriers = append(found.barriers, place)
		}
		for _, to := range f.next[i] {
			if !body[to] && f.panics(to) {
				found.bounds = append(found.bounds, place)
			}
		}
	}
	return found
}

// loopOf gives the loop that a statement became: of the instructions of the
// function itself, and not of inlined ones, it has those of the statement, and
// hardly any others. A few may stand for variables that are older than the loop.
func (f *flow) loopOf(s span) (body []bool) {
	best := 0
	for _, candidate := range f.loops() {
		score := 0
		for i, c := range f.code {
			if !candidate[i] || !strings.HasSuffix(c.file, s.file) || c.line < s.function[0] || c.line > s.function[1] {
				continue
			}
			if c.line >= s.statement[0] && c.line <= s.statement[1] {
				score++
			} else {
				score -= 2
			}
		}
		if score > best {
			body, best = candidate, score
		}
	}
	return body
}

// find looks the loop up in the source.
func (l loop) find(root string) (s span, err error) {
	files, err := filepath.Glob(filepath.Join(root, l.dir, "*.go"))
	if err != nil {
		return s, err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return s, err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, source, 0)
		if err != nil {
			return s, err
		}
		lines := strings.Split(string(source), "\n")
		place := func(n ast.Node) [2]int {
			return [2]int{set.Position(n.Pos()).Line, set.Position(n.End()).Line}
		}
		for _, decl := range tree.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || nameOf(function) != l.function || function.Body == nil {
				continue
			}
			s = span{file: filepath.Join(l.dir, filepath.Base(file)), function: place(function)}
			for n := range ast.Preorder(function.Body) {
				switch n.(type) {
				case *ast.ForStmt, *ast.RangeStmt:
					if at := place(n); strings.HasPrefix(strings.TrimSpace(lines[at[0]-1]), l.begins) {
						s.statement = at
						return s, nil
					}
				}
			}
		}
	}
	return s, fmt.Errorf("%s: no loop begins with %q", l.function, l.begins)
}

// nameOf is the name of a function as a listing has it.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	switch t := f.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return fmt.Sprintf("(*%s).%s", t.X, f.Name.Name)
	default:
		return fmt.Sprintf("%s.%s", t, f.Name.Name)
	}
}

// without leaves the calls out that are listed.
func without(calls, rare []string) []string {
	return slices.DeleteFunc(slices.Clone(calls), func(call string) bool {
		_, function, _ := strings.Cut(call, " ")
		return slices.ContainsFunc(rare, func(r string) bool { return strings.HasSuffix(function, r) })
	})
}
