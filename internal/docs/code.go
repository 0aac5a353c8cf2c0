package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// packages are the packages that code in the pages may use without an import.
var packages = map[string]string{
	"atomic":      "sync/atomic",
	"context":     "context",
	"errgroup":    "golang.org/x/sync/errgroup",
	"errors":      "errors",
	"fmt":         "fmt",
	"goleak":      "go.uber.org/goleak",
	"http":        "net/http",
	"jobs":        "github.com/shoal-go/shoal/jobs",
	"os":          "os",
	"prom":        "github.com/shoal-go/shoal/contrib/prom",
	"prometheus":  "github.com/prometheus/client_golang/prometheus",
	"promhttp":    "github.com/prometheus/client_golang/prometheus/promhttp",
	"runtime":     "runtime",
	"shoal":       "github.com/shoal-go/shoal",
	"shoalexpvar": "github.com/shoal-go/shoal/shoalexpvar",
	"shoalhttp":   "github.com/shoal-go/shoal/shoalhttp",
	"shoalotel":   "github.com/shoal-go/shoal/contrib/otel",
	"shoalsql":    "github.com/shoal-go/shoal/contrib/sql",
	"slices":      "slices",
	"sql":         "database/sql",
	"sync":        "sync",
	"synctest":    "testing/synctest",
	"testing":     "testing",
	"time":        "time",
}

// common is what fragments find declared.
const common = "var ctx = context.Background()\nvar pool *shoal.Pool\n"

// source makes a file of Go from a block: a program or declarations as they
// are, statements as the body of a function. isTest says that it has tests.
func source(file string, b block) (text string, isTest bool, err error) {
	at := fmt.Sprintf("//line %s:%d\n", file, b.line)
	code := b.text()
	if strings.HasPrefix(code, "package ") {
		return at + code, false, nil
	}
	var imports strings.Builder
	for strings.HasPrefix(code, "import ") {
		first, rest, _ := strings.Cut(code, "\n")
		imports.WriteString(first + "\n")
		code = strings.TrimLeft(rest, "\n")
		at = fmt.Sprintf("//line %s:%d\n", file, b.line+strings.Count(b.text(), "\n")-strings.Count(code, "\n"))
	}
	body := b.prelude + at + code
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, "package fragment\n"+body, 0)
	if err != nil {
		body = b.prelude + common + "func _() error {\n" + at + code + "%sreturn nil\n}\n"
		tree, err = parser.ParseFile(fset, file, "package fragment\n"+strings.Replace(body, "%s", "", 1), 0)
		if err != nil {
			return "", false, err
		}
		body = strings.Replace(body, "%s", use(tree), 1)
	}
	used := map[string]bool{}
	if strings.Contains(body, common) {
		used["context"], used["shoal"] = true, true
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && packages[x.Name] != "" {
				used[x.Name] = true
			}
		}
		return true
	})
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !strings.Contains(imports.String(), `"`+packages[name]+`"`) {
			fmt.Fprintf(&imports, "import %s %q\n", name, packages[name])
		}
	}
	isTest = regexp.MustCompile(`(?m)^func Test`).MatchString(code)
	return "package fragment\n" + imports.String() + body, isTest, nil
}

// use has statements that use the variables that the last function of tree
// declares at its top.
func use(tree *ast.File) string {
	var b strings.Builder
	f := tree.Decls[len(tree.Decls)-1].(*ast.FuncDecl)
	for _, s := range f.Body.List {
		if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
			for _, v := range a.Lhs {
				if x, ok := v.(*ast.Ident); ok && x.Name != "_" {
					fmt.Fprintf(&b, "_ = %s\n", x.Name)
				}
			}
		}
	}
	return b.String()
}

// writeCode writes every block of Go in pages as a package below dir, which
// becomes a module beside those of the repository. It returns the programs
// and the packages with tests, by the page that they stand in.
func writeCode(root, dir string, pages []*page) (programs, tests map[string]string, problems []string, err error) {
	programs, tests = map[string]string{}, map[string]string{}
	for _, p := range pages {
		for _, b := range p.blocks {
			if b.lang != "go" {
				continue
			}
			text, isTest, err := source(p.file, b)
			if err != nil {
				problems = append(problems, err.Error())
				continue
			}
			name := regexp.MustCompile(`[^a-z]+`).ReplaceAllString(strings.ToLower(p.file), "_") + fmt.Sprint(b.line)
			file := "fragment.go"
			switch {
			case isTest:
				file = "fragment_test.go"
				tests[p.file] += " ./" + name
			case strings.HasPrefix(b.text(), "package main"):
				programs[fmt.Sprintf("%s:%d", p.file, b.line)] = "./" + name
			}
			if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
				return nil, nil, nil, err
			}
			if err := os.WriteFile(filepath.Join(dir, name, file), []byte(text), 0o666); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	return programs, tests, problems, workspace(root, dir)
}

// workspace makes dir a module and a workspace with all that root's has.
func workspace(root, dir string) error {
	data, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return err
	}
	work := regexp.MustCompile(`(?m)^(\s+|use |.* => )\.(\S*)$`).ReplaceAllString(string(data), "${1}"+root+"${2}")
	work = strings.Replace(work, "use (", "use (\n\t.", 1)
	sum, err := os.ReadFile(filepath.Join(root, "go.work.sum"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for name, text := range map[string]string{
		"go.mod": "module pages\n\ngo 1.26.0\n", "go.work": work, "go.work.sum": string(sum),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// checkCode compiles the Go of all pages, and runs its programs and tests.
func checkCode(root string, pages []*page) (problems []string, err error) {
	dir, err := os.MkdirTemp("", "pages")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	programs, tests, problems, err := writeCode(root, dir, pages)
	if err != nil {
		return nil, err
	}
	goTool := func(what string, args ...string) {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
		if out, err := cmd.CombinedOutput(); err != nil {
			problems = append(problems, fmt.Sprintf("%s: go %s: %v\n%s", what, strings.Join(args, " "), err, out))
		}
	}
	// A fragment may end with a return; what was added after it is never reached.
	goTool("the Go in the pages", "vet", "-unreachable=false", "./...")
	if len(problems) > 0 {
		return problems, nil
	}
	for _, at := range slices.Sorted(maps.Keys(programs)) {
		goTool(at, "run", programs[at])
	}
	for _, file := range slices.Sorted(maps.Keys(tests)) {
		goTool(file, append([]string{"test", "-count=1"}, strings.Fields(tests[file])...)...)
	}
	return problems, nil
}
