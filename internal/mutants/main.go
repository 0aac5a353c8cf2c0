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
			by, err := m.test(filepath.Join(dir, fmt.Sprint(i)))
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
func (m mutant) test(dir string) (by string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return "", fmt.Errorf("%s has %d places of %q, want one", m.file, n, m.old)
	}
	broken := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(broken, bytes.Replace(source, []byte(m.old), []byte(m.new), 1), 0o666); err != nil {
		return "", err
	}
	replace := map[string]string{file: broken}
	forTests, err := writeOverlay(filepath.Join(dir, "tests.json"), replace)
	if err != nil {
		return "", err
	}
	// The models need none of the tests from outside the package, which take longer
	// to compile than all the rest.
	outside, err := testsFromOutside()
	if err != nil {
		return "", err
	}
	for _, f := range outside {
		replace[f] = "" // as if it were not there
	}
	forModels, err := writeOverlay(filepath.Join(dir, "models.json"), replace)
	if err != nil {
		return "", err
	}
	packages := []string{"."}
	if d := filepath.Dir(m.file); d != "." {
		packages = []string{"./" + d, "."}
	}
	withTests := append(packages[:len(packages):len(packages)], "./tests")
	// The models first: they are quick, and say the same every time.
	for _, p := range packages {
		if m.models == "-" {
			break
		}
		for _, preemptions := range [][]string{nil, {"-explore.night"}} { // few kill most, and in less time
			args := append([]string{"-tags", "poolsim", "-failfast", "-run", "TestExplore/" + m.models, "-explore.time", "4m"}, preemptions...)
			if by, err := execute(forModels, p, args...); by != "" || err != nil {
				return by, err
			}
		}
	}
	for _, p := range withTests {
		if m.tests == "" {
			break
		}
		if by, err := execute(forTests, p, "-run", m.tests); by != "" || err != nil {
			return by, err
		}
	}
	return "", nil
}

// writeOverlay writes a file for go test -overlay.
func writeOverlay(name string, replace map[string]string) (string, error) {
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(name, overlay, 0o666)
}

// testsFromOutside are the files of the root's package shoal_test.
var testsFromOutside = sync.OnceValues(func() (files []string, err error) {
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(source, []byte("\npackage shoal_test\n")) && !bytes.HasPrefix(source, []byte("package shoal_test\n")) {
			continue
		}
		if name, err = filepath.Abs(name); err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	return files, nil
})

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (.*) \(|^(panic: .*|fatal error: .*)$`)

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
		by = cmp.Or(match[1], match[2])
		if strings.Contains(match[1], "/") { // the model, not the test around it
			break
		}
	}
	return by, nil
}
