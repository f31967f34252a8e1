package docs_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every exported name of a package that programs can import says what it is: types,
// functions, methods of exported types and interfaces, constants, variables and
// fields. One comment may stand for a group: for constants or variables, for members
// on lines that follow each other, and that of a type for all its members when none
// has one of its own. The method Error needs none.
func TestExportedNamesAreDocumented(t *testing.T) {
	names := 0
	for _, dir := range publicPackages(t) {
		d := undocumented{files: token.NewFileSet(), report: t.Errorf}
		described := false
		for _, f := range parsed(t, d.files, dir) {
			described = described || f.Doc != nil
			for _, decl := range f.Decls {
				d.declaration(decl)
			}
		}
		if !described {
			t.Errorf("package %s has no comment", dir)
		}
		names += d.names
	}
	if names < 500 {
		t.Errorf("only %d exported names were found", names)
	}
}

// publicPackages are the directories of packages that are no programs, and that
// programs outside of this module can import.
func publicPackages(t *testing.T) (dirs []string) {
	t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch name := d.Name(); {
			case path == "..":
				return nil
			case strings.HasPrefix(name, "."), name == "testdata", name == "internal", name == "scripts", name == "examples", name == "cmd":
				return fs.SkipDir
			}
			return nil
		}
		if dir := filepath.Dir(path); strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// undocumented looks for exported names without a comment.
type undocumented struct {
	files  *token.FileSet
	report func(format string, args ...any)
	names  int
}

func (u *undocumented) need(name *ast.Ident, documented bool) {
	if !name.IsExported() {
		return
	}
	u.names++
	if !documented {
		u.report("%v: %s has no comment", u.files.Position(name.Pos()), name.Name)
	}
}

func (u *undocumented) declaration(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil || receiver(decl.Recv.List[0].Type).IsExported() && decl.Name.Name != "Error" {
			u.need(decl.Name, decl.Doc != nil)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					u.need(name, spec.Doc != nil || spec.Comment != nil || decl.Doc != nil)
				}
			case *ast.TypeSpec:
				u.need(spec.Name, spec.Doc != nil || decl.Doc != nil)
				if spec.Name.IsExported() {
					u.members(spec.Type)
				}
			}
		}
	}
}

// members looks at the fields of a struct and the methods of an interface. A line
// without a comment belongs to the one before it, if no empty line parts them.
func (u *undocumented) members(typ ast.Expr) {
	var list []*ast.Field
	switch typ := typ.(type) {
	case *ast.StructType:
		list = typ.Fields.List
	case *ast.InterfaceType:
		list = typ.Methods.List
	}
	if !slices.ContainsFunc(list, commented) {
		return // the type's own comment says it all
	}
	line, documented := 0, false
	for _, f := range list {
		if u.files.Position(f.Pos()).Line != line+1 {
			documented = false
		}
		line = u.files.Position(f.End()).Line
		documented = documented || commented(f)
		for _, name := range f.Names {
			u.need(name, documented)
		}
	}
}

func commented(f *ast.Field) bool { return f.Doc != nil || f.Comment != nil }

// receiver is the name of a method's type.
func receiver(typ ast.Expr) *ast.Ident {
	switch typ := typ.(type) {
	case *ast.StarExpr:
		return receiver(typ.X)
	case *ast.IndexExpr:
		return receiver(typ.X)
	case *ast.Ident:
		return typ
	}
	return ast.NewIdent("_")
}
