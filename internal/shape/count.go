package main

import (
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// codeLines is how many lines of src hold code: no comment and no blank.
func codeLines(src []byte) int {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return len(lines)
		case tok == token.SEMICOLON && lit == "\n":
			continue
		}
		n := fset.Position(pos).Line
		for i := range strings.Count(lit, "\n") + 1 {
			lines[n+i] = true
		}
	}
}

// sources calls f for each file of the package in folder dir that is no test.
func sources(dir string, f func(name string, src []byte)) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f(name, src)
	}
	return nil
}

// A question is one that an engineer has about the kernel, and the fields that the answer depends
// on. To know when it changes, one must read the functions that write these.
type question struct {
	name   string
	fields string
}

var questions = []question{
	{"is there room", "line.tail line.head account.granted account.capacity account.limit account.inline account.tombs"},
	{"who sleeps, who is woken", "Crew.wake Crew.idle Crew.solo Crew.urgent Worker.searches"},
	{"must workers look", "Lane.blocked waiter.called Lane.reservers life.phase life.paused account.limit Crew.live Crew.departing"},
	{"is it quiet", "line.tail line.head account.tombs Lane.waiting Lane.quietWaiters"},
	{"is it the end", "Crew.live life.phase life.ended life.holds"},
}

// writers is how many functions write one of the fields, their lines, and in how many files.
func (c *code) writers(fields string) (names []string, lines, files int) {
	of := map[string]bool{}
	for _, w := range c.writes() {
		if slices.Contains(strings.Fields(fields), w.field) && w.file != "audit.go" {
			of[w.fn] = true
		}
	}
	in := map[string]bool{}
	c.funcs(func(name string, d ast.Decl) {
		if name != "" && of[name] {
			names = append(names, name)
			lines += c.fset.Position(d.End()).Line - c.fset.Position(d.Pos()).Line + 1
			in[c.file(d.Pos())] = true
		}
	})
	slices.Sort(names)
	return names, lines, len(in)
}

// structs calls f for each struct of c, with the number of its fields, blank ones apart.
func (c *code) structs(f func(name string, fields int)) {
	for _, file := range c.files {
		ast.Inspect(file, func(n ast.Node) bool {
			t, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := t.Type.(*ast.StructType)
			if !ok {
				return true
			}
			sum := 0
			for _, g := range s.Fields.List {
				if len(g.Names) == 0 {
					sum++
				}
				for _, name := range g.Names {
					if name.Name != "_" {
						sum++
					}
				}
			}
			f(t.Name.Name, sum)
			return true
		})
	}
}

// A figure is something that was counted, and what it may be at most.
type figure struct {
	name string
	n    int
}

// counts counts what can be counted in the text of the module in folder root, whose kernel is c.
func counts(root string, c *code) (figures []figure, err error) {
	add := func(name string, n int) { figures = append(figures, figure{name, n}) }
	total, longest := 0, map[string]int{}
	for _, p := range []struct{ name, dir string }{
		{"the root package", "."}, {"internal/kernel", "internal/kernel"}, {"internal/grow", "internal/grow"},
		{"internal/fair", "internal/fair"}, {"internal/caller", "internal/caller"},
	} {
		sum := 0
		err := sources(filepath.Join(root, p.dir), func(name string, src []byte) {
			sum += codeLines(src)
			n := strings.Count(string(src), "\n")
			if p.dir == "." || p.dir == "internal/kernel" {
				longest[p.name] = max(longest[p.name], n)
				if n > 500 {
					add("lines of "+filepath.ToSlash(filepath.Join(p.dir, filepath.Base(name)))+", more than 500", n)
				}
			}
		})
		if err != nil {
			return nil, err
		}
		add("lines of code of "+p.name, sum)
		total += sum
	}
	add("lines of code of these", total)

	for _, q := range questions {
		names, lines, files := c.writers(q.fields)
		add(fmt.Sprintf("%s? functions", q.name), len(names))
		add(fmt.Sprintf("%s? lines", q.name), lines)
		add(fmt.Sprintf("%s? files", q.name), files)
	}

	most := 0
	for _, dir := range []string{".", "internal/grow", "internal/fair", "internal/caller"} {
		p, err := load(filepath.Join(root, dir), nil)
		if err != nil {
			return nil, err
		}
		p.structs(func(name string, fields int) { most = max(most, fields) })
	}
	c.structs(func(name string, fields int) { most = max(most, fields) })
	add("fields of a struct", most)

	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	entries := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		entry, _, _ := strings.Cut(strings.TrimSpace(line), "/")
		entries[entry] = true
	}
	add("entries of the root folder", len(entries))
	return figures, nil
}
