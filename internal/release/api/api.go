// Package api keeps the exported API of packages in readable files, and compares
// packages with them.
package api

import (
	"bytes"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/sync/errgroup"

	"github.com/shoal-go/shoal/internal/release/tree"
)

// A Package is one to compare, with what imports the packages it may depend on.
type Package struct {
	*types.Package
	Importer types.Importer
}

// Load returns the packages of a tree that a release promises something about: those
// of released modules, without commands, internal packages, tests and the benchmarks.
func Load(t *tree.Tree) ([]*Package, error) {
	loaded := make([][]*Package, len(t.Released))
	var g errgroup.Group
	g.SetLimit(2)
	for i, m := range t.Released {
		if m.Dir == "bench" {
			continue
		}
		g.Go(func() (err error) {
			loaded[i], err = load(filepath.Join(t.Dir, filepath.FromSlash(m.Dir)))
			return err
		})
	}
	err := g.Wait()
	return slices.Concat(loaded...), err
}

// first returns the first of the go command's lines that is not a heading.
func first(stderr string) string {
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line
		}
	}
	return strings.TrimSpace(stderr)
}

// load reads the packages of one module from what the compiler exports of them.
func load(dir string) ([]*Package, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{not .DepOnly}}\t{{.Name}}", "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, first(string(e.Stderr)))
		}
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	exports := map[string]string{}
	var paths []string
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		exports[f[0]] = f[1]
		folders := strings.Split(f[0], "/")
		if f[2] == "true" && f[3] != "main" && !slices.Contains(folders, "internal") && !slices.Contains(folders, "tests") {
			paths = append(paths, f[0])
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var all []*Package
	for _, path := range paths {
		pkg, err := from.Import(path)
		if err != nil {
			return nil, err
		}
		all = append(all, &Package{pkg, from})
	}
	return all, nil
}

// File returns the name of the file of a package, below the folder of all.
func File(pkg string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(pkg, tree.Root), "/")
	if name == "" {
		name = path.Base(tree.Root)
	}
	return name + ".txt"
}

// A Change is one between the listing of a package and the package.
type Change struct {
	Package string
	Symbol  string // as in "Pool.Submit", "" for the package
	What    string
	Break   bool
}

func (c Change) String() string {
	if c.Symbol == "" {
		return c.Package + ": " + c.What
	}
	return c.Package + ": " + c.Symbol + ": " + c.What
}

// Compare compares packages with their listings in files.
func Compare(files fs.FS, pkgs []*Package) ([]Change, error) {
	var changes []Change
	known := map[string]bool{}
	for _, pkg := range pkgs {
		name := File(pkg.Path())
		known[name] = true
		listing, err := fs.ReadFile(files, name)
		if errors.Is(err, fs.ErrNotExist) {
			changes = append(changes, Change{Package: pkg.Path(), What: "package added"})
			continue
		}
		if err != nil {
			return nil, err
		}
		now, err := List(pkg.Package)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pkg.Path(), err)
		}
		if bytes.Equal(now, listing) {
			continue
		}
		old, err := Parse(name, listing, pkg)
		if err != nil {
			return nil, err
		}
		report := apidiff.Changes(old, pkg.Package)
		for _, c := range report.Changes {
			symbol, what, _ := strings.Cut(c.Message, ": ")
			changes = append(changes, Change{pkg.Path(), plain(symbol), what, !c.Compatible})
		}
		if len(report.Changes) == 0 {
			changes = append(changes, Change{Package: pkg.Path(), What: "is written differently"})
		}
	}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".txt") && !known[name] {
			changes = append(changes, Change{Package: path.Join(tree.Root, strings.TrimSuffix(name, ".txt")), What: "package removed", Break: true})
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return changes, err
}

// plain returns "Pool.Len" for "(*Pool).Len".
func plain(symbol string) string {
	symbol, _, _ = strings.Cut(symbol, ",")
	return strings.NewReplacer("(*", "", ")", "", "[T]", "").Replace(symbol)
}

// Unnamed returns the breaks that no line of notes names. Such a line begins with
// "Breaking:", as an item of a list or not, and has the symbol, or for a whole
// package its path.
func Unnamed(changes []Change, notes string) []Change {
	var lines []string
	item := false
	for line := range strings.Lines(notes) {
		text := strings.TrimLeft(line, "-* \t")
		switch {
		case strings.HasPrefix(text, "Breaking:"):
			item = true
		case !strings.HasPrefix(line, "  "):
			item = false
		}
		if item {
			lines = append(lines, text)
		}
	}
	named := strings.Join(lines, " ")
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		name := c.Symbol
		if name == "" {
			name = strings.TrimPrefix(c.Package, tree.Root+"/")
		}
		return !c.Break || regexp.MustCompile(`(^|[^\w.])(\w+\.)?`+regexp.QuoteMeta(name)+`($|\W)`).MatchString(named)
	})
}

// Update writes the listings of packages to the folder dir, and removes others. Each
// is read again and compared: one that is not the package is an error.
func Update(dir string, pkgs []*Package) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, pkg := range pkgs {
		listing, err := List(pkg.Package)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg.Path(), err)
		}
		read, err := Parse(pkg.Path(), listing, pkg)
		if err != nil {
			return fmt.Errorf("the listing of %s: %w", pkg.Path(), err)
		}
		if report := apidiff.Changes(read, pkg.Package); len(report.Changes) > 0 {
			return fmt.Errorf("the listing of %s is not the package: %s", pkg.Path(), report.Changes[0].Message)
		}
		file := filepath.Join(dir, filepath.FromSlash(File(pkg.Path())))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, listing, 0o666); err != nil {
			return err
		}
	}
	return nil
}
