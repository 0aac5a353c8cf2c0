// Command mutants breaks the engine in many small ways and checks that each of
// them is noticed, by the models or by a test. It changes no file: the broken
// one is given to the compiler as an overlay. Run it in the root of the module:
//
//	go run ./internal/mutants
//
// A mutant that lives is a hole in the tests.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	only := flag.String("run", "", "only the mutants whose name matches this `regexp`")
	parallel := flag.Int("parallel", 2, "how many at once")
	flag.Parse()
	if err := run(*only, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, parallel int) error {
	re, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if parallel < 1 {
		return fmt.Errorf("-parallel %d: must be at least 1", parallel)
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files, err := code(".")
	if err != nil {
		return err
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		killed int
		bad    []string
		slots  = make(chan struct{}, parallel)
	)
	total := 0
	for i, m := range mutants {
		if !re.MatchString(m.name) {
			continue
		}
		total++
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			begun := time.Now()
			by, err := m.test(filepath.Join(dir, fmt.Sprint(i)), files)
			mu.Lock()
			defer mu.Unlock()
			took := time.Since(begun).Round(100 * time.Millisecond)
			switch {
			case err != nil:
				bad = append(bad, m.name)
				fmt.Printf("ERROR  %-60s %v\n", m.name, err)
			case by == "":
				bad = append(bad, m.name)
				fmt.Printf("LIVES  %-60s %v\n", m.name, took)
			default:
				killed++
				fmt.Printf("killed %-60s %v by %s\n", m.name, took, by)
			}
		})
	}
	wg.Wait()
	fmt.Printf("mutants: %d of %d killed\n", killed, total)
	if len(bad) > 0 {
		return fmt.Errorf("not killed: %s", strings.Join(bad, "; "))
	}
	return nil
}

// test builds the mutant and runs what should kill it; it says what did.
func (m mutant) test(dir string, files map[string]string) (by string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	file, source, err := find(files, m.old)
	if err != nil {
		return "", err
	}
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	broken := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(broken, []byte(strings.Replace(source, m.old, m.new, 1)), 0o666); err != nil {
		return "", err
	}
	overlay, err := writeOverlay(filepath.Join(dir, "overlay.json"), map[string]string{file: broken})
	if err != nil {
		return "", err
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	own, err := filepath.Rel(root, filepath.Dir(file))
	if err != nil {
		return "", err
	}
	withModels, withTests := places(filepath.ToSlash(own))
	// The models first: they are quick, and say the same every time.
	for _, p := range withModels {
		if m.models == "" {
			break
		}
		// Few schedules and few preemptions kill most mutants, and a model need not wait for those before it.
		for _, depth := range [][]string{{"-explore.most", "3000"}, nil, {"-explore.night"}} {
			args := append([]string{"-tags", "poolsim", "-failfast", "-run", "TestExplore/" + m.models, "-explore.time", "4m"}, depth...)
			if by, err := execute(overlay, p, args...); by != "" || err != nil {
				return by, err
			}
		}
	}
	for _, p := range withTests {
		if m.tests == "" {
			break
		}
		if by, err := execute(overlay, p, "-run", m.tests); by != "" || err != nil {
			return by, err
		}
	}
	return "", nil
}

// kernel is the package whose models and tests are run for everything that it is built on.
const kernel = "./internal/kernel"

// places are the packages whose models, and those whose tests, are to kill a mutant of the
// package in folder own: its own, then the kernel's, then those of the pool.
func places(own string) (withModels, withTests []string) {
	if own == "." {
		return []string{"./tests/models"}, []string{"./tests"}
	}
	own = "./" + own
	if own == "./internal/queue" || own == "./internal/grow" {
		withModels = []string{own}
	}
	withTests = []string{own}
	if own != kernel {
		withTests = append(withTests, kernel)
	}
	return append(withModels, kernel, "./tests/models"), append(withTests, "./tests")
}

// find returns the one of files that has text, and its content.
func find(files map[string]string, text string) (file, source string, err error) {
	n := 0
	for name, s := range files {
		if k := strings.Count(s, text); k > 0 {
			n += k
			file, source = name, s
		}
	}
	if n != 1 {
		return "", "", fmt.Errorf("there are %d places of %q, want one", n, text)
	}
	return file, source, nil
}

// code reads the code of the module in folder root. Tests are not code, nor are other modules,
// this command and the examples.
func code(root string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root:
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "mutants" || d.Name() == "examples" {
				return filepath.SkipDir
			}
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			source, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			files[name] = string(source)
		}
		return nil
	})
	return files, err
}

// writeOverlay writes a file for go test -overlay.
func writeOverlay(name string, replace map[string]string) (string, error) {
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(name, overlay, 0o666)
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (.*) \(|^(panic: .*|fatal error: .*)$|^\t\t(Test\S+) \([0-9]+m`)

// execute runs tests against the mutant, and says which of them failed first.
func execute(overlay, pkg string, args ...string) (by string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute)
	defer cancel()
	models, limit := slices.Contains(args, "poolsim"), "2m"
	if models {
		limit = "10m"
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-vet=off", "-gcflags=-dwarf=false", "-ldflags=-w", // nobody debugs it
		"-timeout=" + limit, "-overlay", overlay, pkg}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case !errors.As(err, &exit):
		return "", err
	case strings.Contains(out.String(), "[build failed]"), strings.Contains(out.String(), "[setup failed]"):
		return "", fmt.Errorf("it does not compile:\n%s", out.String())
	case models && strings.Contains(out.String(), "panic: test timed out"):
		return "", nil // models that take long, or that have become endless: that shows nothing
	}
	by = "the time limit"
	for _, match := range failed.FindAllStringSubmatch(out.String(), -1) {
		by = cmp.Or(match[1], match[2], match[3]) // the last is a test that hangs
		if strings.Contains(match[1], "/") {      // the model, not the test around it
			break
		}
	}
	return by, nil
}
