// Command outside runs tests that others wrote on the facades below compat. It
// works in a temporary folder, downloads the modules that it needs, and prints a table.
//
//	go run ./internal/outside upstream [NAME=FOLDER …]
//	go run ./internal/outside downstream [NAME …]
//
// upstream runs the originals' own tests on the facades. It takes every test of the
// original's package that compiles against what the facade exports, and changes
// nothing but the import. A test of the original's own package is in a package beside the facade
// then, so what looks at unexported names does not compile. It is left out, and the
// compiler's message is the reason. With NAME=FOLDER only that original is tested, with
// the sources in FOLDER.
//
// downstream runs the tests of programs that use an original before and after their
// import is changed to the facade.
//
// The tests sleep and look, so on a loaded machine some may fail. What fails is tried once
// more, alone. The exit status is 1 if a test fails on a facade for a reason that is not
// known.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const shoal = "github.com/shoal-go/shoal"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	out, err := command(".", "go", "list", "-m", "-f", "{{.Dir}}", shoal)
	if err != nil {
		return err
	}
	root := strings.TrimSpace(string(out))
	dir, err := os.MkdirTemp("", "outside")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	switch {
	case len(args) > 0 && args[0] == "upstream":
		return upstream(root, dir, args[1:])
	case len(args) > 0 && args[0] == "downstream":
		return downstream(root, dir, args[1:])
	}
	return errors.New("usage: outside upstream [NAME=FOLDER …] | outside downstream [NAME …]")
}

// command runs a command in dir and returns its output; the error has the rest.
func command(dir string, name string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	c := exec.Command(name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, &stdout, &stderr
	if dir != "." {
		c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	}
	if err := c.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// download returns the folder of a module's sources, and its version.
func download(dir, module string) (sources, version string, err error) {
	out, err := command(dir, "go", "mod", "download", "-json", module)
	var m struct{ Dir, Version, Error string }
	if e := json.Unmarshal(out, &m); e != nil {
		return "", "", errors.Join(err, e)
	}
	if m.Error != "" {
		first, _, _ := strings.Cut(m.Error, "\n")
		return "", "", errors.New(first)
	}
	return m.Dir, m.Version, nil
}

// require makes the module in dir use the facades of this checkout.
func require(dir, root string) error {
	_, err := command(dir, "go", "mod", "edit", "-go=1.26.0", "-toolchain=none", "-require="+shoal+"@v0.1.0", "-replace="+shoal+"="+root)
	return err
}

// A result is how a test ended.
type result struct {
	ok   bool
	skip bool
	log  string // of one that failed
}

// test runs the tests of packages in dir, and returns how each of them ended, by package and
// name. Where one of them ends the process, the others are run without it.
func test(dir string, packages ...string) (map[string]result, error) {
	all := make(map[string]result)
	for _, p := range packages {
		names, err := list(dir, p)
		if err != nil {
			return nil, err
		}
		for left := names; len(left) > 0; {
			got := testSome(dir, p, left)
			left = slices.DeleteFunc(left, func(name string) bool {
				r, ok := got[name]
				if ok {
					all[p+" "+name] = r
				}
				return ok
			})
			if len(got) == 0 {
				for _, name := range left {
					all[p+" "+name] = result{log: "it was not run: the process ended before"}
				}
				break
			}
		}
		for _, name := range names {
			if r := all[p+" "+name]; !r.ok && !r.skip {
				if again := testSome(dir, p, []string{name})[name]; again.ok {
					all[p+" "+name] = again
				}
			}
		}
	}
	return all, nil
}

var testName = regexp.MustCompile(`(?m)^(Test|Example)\w*$`)

// list returns the names of the tests of a package.
func list(dir, p string) ([]string, error) {
	out, err := command(dir, "go", "test", "-vet=off", "-list", "^(Test|Example)", p)
	return testName.FindAllString(string(out), -1), err
}

// testSome runs these tests of a package, and returns the results of those that ended.
func testSome(dir, p string, names []string) map[string]result {
	out, _ := command(dir, "go", "test", "-vet=off", "-json", "-count=1", "-timeout=8m", "-run", "^("+strings.Join(names, "|")+")$", p)
	results, logs := make(map[string]result), make(map[string]string)
	running := ""
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil || e.Test == "" {
			continue
		}
		name, _, sub := strings.Cut(e.Test, "/")
		switch e.Action {
		case "run":
			running = name
		case "output":
			logs[name] = tail(logs[name]+e.Output, 1000)
		case "pass", "skip", "fail":
			if !sub {
				results[name] = result{e.Action == "pass", e.Action == "skip", logs[name]}
				running = ""
			}
		}
	}
	if running != "" { // it ended the process
		results[running] = result{log: logs[running]}
	}
	return results
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// indent sets a text off.
func indent(text string) string {
	return "      " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n      ")
}

// copyFiles copies the files of a folder, which are read-only there.
func copyFiles(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}
