package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// public are the packages whose names the guides for newcomers use.
var public = []string{"driver", "port", "mbuf", "pci", "vhost", "offload"}

// guides have tables whose last column is ours.
var guides = []string{"from-dpdk.md", "from-afxdp.md", "umem.md"}

var (
	lastColumn = regexp.MustCompile(`(?m)^\|.*\| ([^|]+) \|$`)
	exported   = regexp.MustCompile(`^(?:([a-z]+)\.)?([A-Z]\w*)(?:\.([A-Z]\w*))?$`)
)

// Names that the guides put beside those of DPDK and AF_XDP exist.
func TestGuidesNameWhatExists(t *testing.T) {
	known := map[string]bool{}
	for _, dir := range public {
		collectNames(t, dir, known)
	}
	found := 0
	for _, guide := range guides {
		for _, row := range lastColumn.FindAllStringSubmatch(read(t, guide), -1) {
			for _, m := range quoted.FindAllStringSubmatch(row[1], -1) {
				name := m[1]
				parts := exported.FindStringSubmatch(name)
				if parts == nil || parts[1] != "" && !slices.Contains(public, parts[1]) {
					continue
				}
				found++
				if !known[name] {
					t.Errorf("%s: there is no %s", guide, name)
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d names were found", found)
	}
}

// collectNames notes the exported names of a package as one may write them:
// Name, package.Name, Type.Member and Member.
func collectNames(t *testing.T, dir string, known map[string]bool) {
	t.Helper()
	note := func(owner, name string) {
		if !ast.IsExported(name) {
			return
		}
		known[name] = true
		known[dir+"."+name] = owner == "" || known[dir+"."+name]
		if owner != "" {
			known[owner+"."+name] = true
			known[dir+"."+owner+"."+name] = true
		}
	}
	for _, file := range parsed(t, token.NewFileSet(), filepath.Join("..", dir)) {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				note(receiverName(d), d.Name.Name)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					noteSpec(s, note)
				}
			}
		}
	}
}

// noteSpec notes constants, variables, types and the members of types.
func noteSpec(spec ast.Spec, note func(owner, name string)) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			note("", name.Name)
		}
	case *ast.TypeSpec:
		note("", s.Name.Name)
		var members *ast.FieldList
		switch kind := s.Type.(type) {
		case *ast.StructType:
			members = kind.Fields
		case *ast.InterfaceType:
			members = kind.Methods
		default:
			return
		}
		for _, field := range members.List {
			for _, name := range field.Names {
				note(s.Name.Name, name.Name)
			}
		}
	}
}

// receiverName is the type that a method belongs to, "" for a function.
func receiverName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	return receiver(d.Recv.List[0].Type).Name
}

// parsed are the files of the package in a directory, without its tests.
func parsed(t *testing.T, set *token.FileSet, dir string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
