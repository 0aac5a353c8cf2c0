package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// exported are the exported names of a package's files in dir: of its
// declarations, and of its methods as Type.Method.
func exported(dir string) (map[string]bool, error) {
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names[n.Name] = true
						}
					}
				}
			}
		}
	}
	return names, nil
}

// receiver is the type of a method's receiver and a dot.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	switch i := t.(type) {
	case *ast.IndexExpr:
		t = i.X
	case *ast.IndexListExpr:
		t = i.X
	}
	return t.(*ast.Ident).Name + "."
}

var (
	inPackage = regexp.MustCompile(`\b(shoal|shoalhttp|shoalexpvar|jobs)\.([A-Z]\w*)`)
	ofPool    = regexp.MustCompile(`\bpool\.([A-Z]\w*)`)
	option    = regexp.MustCompile(`^(With[A-Z]\w*)\(`)
)

// others is the page that has names of other libraries too, without their package.
const others = "docs/migrate.md"

// checkNames finds names of the packages, and methods of a pool, that the
// sentences and the tables of pages have and that do not exist.
func checkNames(root string, pages []*page) (problems []string, err error) {
	names := map[string]map[string]bool{}
	for name, dir := range map[string]string{"shoal": ".", "shoalhttp": "shoalhttp", "shoalexpvar": "shoalexpvar", "jobs": "jobs"} {
		if names[name], err = exported(filepath.Join(root, dir)); err != nil {
			return nil, err
		}
	}
	for _, p := range pages {
		for _, l := range p.prose {
			for _, span := range codeSpan.FindAllString(l.text, -1) {
				missing := func(in, name string) {
					problems = append(problems, fmt.Sprintf("%s:%d: there is no %s in package %s: %s", p.file, l.n, name, in, span))
				}
				for _, m := range inPackage.FindAllStringSubmatch(span, -1) {
					if !names[m[1]][m[2]] {
						missing(m[1], m[2])
					}
				}
				if p.file == others {
					continue
				}
				for _, m := range ofPool.FindAllStringSubmatch(span, -1) {
					if name := "Pool." + m[1]; !names["shoal"][name] {
						missing("shoal", name)
					}
				}
				if m := option.FindStringSubmatch(strings.Trim(span, "`")); m != nil && !names["shoal"][m[1]] && !names["shoalhttp"][m[1]] && !names["jobs"][m[1]] {
					missing("shoal", m[1])
				}
			}
		}
	}
	return problems, nil
}
