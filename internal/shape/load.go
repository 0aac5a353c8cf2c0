package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// A code is one package: its syntax and its types, without tests.
type code struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
	pkg   *types.Package
}

// A listing is a package as go list tells of it.
type listing struct {
	ImportPath, Export, Dir string
	GoFiles                 []string

	exports map[string]string // of what it imports, directly or not: the files that say what these export
}

// listings are those that list has made, by folder.
var listings = map[string]*listing{}

func list(dir string) (*listing, error) {
	if l := listings[dir]; l != nil {
		return l, nil
	}
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,Dir", ".")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	exports := map[string]string{}
	last := new(listing)                                // the package itself
	for d := json.NewDecoder(bytes.NewReader(out)); ; { // what it imports comes before it
		l := new(listing)
		if err := d.Decode(l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		last = l
	}
	last.exports = exports
	listings[dir] = last
	return last, nil
}

// load reads the package in folder dir. For a file that replace names it takes that text.
func load(dir string, replace map[string]string) (*code, error) {
	l, err := list(dir)
	if err != nil {
		return nil, err
	}
	c := &code{fset: token.NewFileSet(), info: &types.Info{
		Defs:       map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
		Types:      map[ast.Expr]types.TypeAndValue{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	for _, name := range l.GoFiles {
		var text any
		if s, ok := replace[name]; ok {
			text = s
		}
		f, err := parser.ParseFile(c.fset, filepath.Join(l.Dir, name), text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, f)
	}
	conf := types.Config{Importer: importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(l.exports[path])
	})}
	c.pkg, err = conf.Check(l.ImportPath, c.fset, c.files, c.info)
	return c, err
}

// file is the name of the file that pos is in, without its folder.
func (c *code) file(pos token.Pos) string { return filepath.Base(c.fset.Position(pos).Filename) }
