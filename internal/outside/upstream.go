package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An original is a library that a facade stands for.
type original struct {
	module  string
	inBench bool              // the module bench requires it, in a version that is the facade's
	differ  map[string]string // tests that must fail, and the difference that makes them
}

var originals = map[string]original{
	"pond": {"github.com/alitto/pond", true, nil},
	"ants": {"github.com/panjf2000/ants/v2", true, map[string]string{
		"TestPanicHandler":          "a worker survives a panic, so Running does not go down",
		"TestPanicHandlerPreMalloc": "a worker survives a panic, so Running does not go down",
	}},
	"workerpool": {"github.com/gammazero/workerpool", true, nil},
	"flock":      {"github.com/tahsin716/flock", false, nil},
	"taskgo":     {"github.com/limpo1989/taskgo", false, nil},
}

func upstream(root, dir string, args []string) error {
	folders := make(map[string]string)
	for _, arg := range args {
		name, folder, ok := strings.Cut(arg, "=")
		if _, known := originals[name]; !ok || !known {
			return fmt.Errorf("%s: want NAME=FOLDER, where NAME is one of %v", arg, slices.Sorted(maps.Keys(originals)))
		}
		folders[name] = folder
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module outside\n"), 0o666); err != nil {
		return err
	}
	if err := require(dir, root); err != nil {
		return err
	}
	var wrong error
	for _, name := range slices.Sorted(maps.Keys(originals)) {
		o := originals[name]
		sources, version := folders[name], ""
		var err error
		switch {
		case sources != "":
			version = "(" + sources + ")"
		case len(folders) > 0:
			continue
		case o.inBench:
			var out []byte
			out, err = command(".", "go", "list", "-C", filepath.Join(root, "bench"), "-m", "-f", "{{.Version}}", o.module)
			if err == nil {
				sources, version, err = download(dir, o.module+"@"+strings.TrimSpace(string(out)))
			}
		default:
			sources, version, err = download(dir, o.module+"@latest")
		}
		if err != nil {
			fmt.Printf("%s: left out: %v\n", name, err)
			continue
		}
		if err := onFacade(dir, name, version, sources); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", name, err))
		}
	}
	return wrong
}

// onFacade runs the tests of the original in sources on its facade, and prints how they ended.
func onFacade(dir, name, version, sources string) error {
	o := originals[name]
	leftOut := make(map[string]string)
	packages, err := adapt(dir, name, sources, leftOut)
	if err != nil {
		return err
	}
	results, err := test(dir, packages...)
	if err != nil {
		return err
	}
	var passed, skipped int
	var lines []string
	var wrong []string
	for _, key := range slices.Sorted(maps.Keys(results)) {
		_, test, _ := strings.Cut(key, " ")
		switch r := results[key]; {
		case r.skip:
			skipped++
		case r.ok:
			passed++
		case o.differ[test] != "":
			lines = append(lines, fmt.Sprintf("  failed    %s: %s", test, o.differ[test]))
		default:
			wrong = append(wrong, test)
			lines = append(lines, fmt.Sprintf("  failed    %s\n%s", test, indent(r.log)))
		}
	}
	failed := len(lines)
	for _, test := range slices.Sorted(maps.Keys(leftOut)) {
		lines = append(lines, fmt.Sprintf("  left out  %s: %s", test, leftOut[test]))
	}
	fmt.Printf("%s %s: %d passed, %d failed, %d skipped by themselves, %d left out\n", name, version, passed, failed, skipped, len(leftOut))
	for _, line := range lines {
		fmt.Println(line)
	}
	if wrong != nil {
		return fmt.Errorf("failed: %s", strings.Join(wrong, ", "))
	}
	return nil
}

// adapt makes packages of the tests in sources that use the facade, and returns their paths in
// dir. What does not compile is taken out, and noted in leftOut.
func adapt(dir, name, sources string, leftOut map[string]string) (packages []string, err error) {
	files, err := filepath.Glob(filepath.Join(sources, "*_test.go"))
	if err != nil {
		return nil, err
	}
	facade := strconv.Quote(shoal + "/compat/" + name)
	texts := make(map[string]map[string]string) // by package and file
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.PackageClauseOnly)
		if err != nil {
			return nil, err
		}
		p := path.Join(name, f.Name.Name)
		if texts[p] == nil {
			texts[p] = make(map[string]string)
			packages = append(packages, "./"+p)
		}
		t := string(text)
		if strings.HasSuffix(f.Name.Name, "_test") {
			t = strings.ReplaceAll(t, strconv.Quote(originals[name].module), facade)
		} else { // it is in a package beside the original now
			end := int(f.Name.End()) - 1
			t = t[:end] + "_test\n\nimport . " + facade + t[end:]
		}
		texts[p][filepath.Base(file)] = t
	}
	for p, files := range texts {
		if err := compile(dir, p, files, leftOut); err != nil {
			return nil, err
		}
	}
	return packages, nil
}

var (
	compileError = regexp.MustCompile(`(?m)^\S*?([^/\s]+\.go):(\d+):\d+: (.*)$`)
	undefined    = regexp.MustCompile(`^undefined: (\w+)$`)
)

// compile writes files, and takes declarations out of them until they compile.
func compile(dir, p string, files map[string]string, leftOut map[string]string) error {
	folder := filepath.Join(dir, p)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	gone := make(map[string]string) // the names that were taken out, and why
	for round := range 20 {
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o666); err != nil {
				return err
			}
		}
		if round == 0 {
			if _, err := command(dir, "go", "mod", "tidy"); err != nil {
				return err
			}
		}
		_, err := command(dir, "go", "test", "-c", "-gcflags=-e", "-o", os.DevNull, "./"+p)
		if err == nil {
			return nil
		}
		lines := make(map[string]map[int]string) // by file: the first message of each
		for _, m := range compileError.FindAllStringSubmatch(err.Error(), -1) {
			line, _ := strconv.Atoi(m[2])
			if lines[m[1]] == nil {
				lines[m[1]] = make(map[int]string)
			}
			if lines[m[1]][line] == "" {
				lines[m[1]][line] = m[3]
			}
		}
		progress := false
		for file := range lines {
			text, found := takeOut(files[file], lines[file], gone, leftOut)
			files[file], progress = text, progress || found
		}
		if !progress {
			return err
		}
	}
	return errors.New("it does not compile")
}

// takeOut returns text without the declarations that the compiler's messages are about, and
// whether there are any.
func takeOut(text string, messages map[int]string, gone, leftOut map[string]string) (string, bool) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", text, parser.ParseComments)
	if err != nil {
		return text, false
	}
	var out []ast.Node
	take := func(n ast.Node, names ...*ast.Ident) {
		for line := fset.Position(n.Pos()).Line; line <= fset.Position(n.End()).Line; line++ {
			why := messages[line]
			if why == "" {
				continue
			}
			if m := undefined.FindStringSubmatch(why); m != nil && gone[m[1]] != "" {
				why = m[1] + " is left out: " + gone[m[1]]
			}
			out = append(out, n)
			for _, name := range names {
				gone[name.Name] = why
				if testName.MatchString(name.Name) {
					leftOut[name.Name] = why
				}
			}
			return
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			take(d, d.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ImportSpec:
					take(s)
				case *ast.TypeSpec:
					take(s, s.Name)
				case *ast.ValueSpec:
					take(s, s.Names...)
				}
			}
		}
	}
	for _, n := range slices.Backward(out) {
		from, to := fset.Position(n.Pos()).Offset, fset.Position(n.End()).Offset
		if d, ok := n.(*ast.ImportSpec); ok && len(f.Decls) > 0 {
			for _, g := range f.Decls {
				if g, ok := g.(*ast.GenDecl); ok && !g.Lparen.IsValid() && g.Specs[0] == ast.Spec(d) {
					from = fset.Position(g.Pos()).Offset
				}
			}
		}
		text = text[:from] + text[to:]
	}
	return text, len(out) > 0
}
