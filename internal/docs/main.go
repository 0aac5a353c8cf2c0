// Command docs checks the pages of the repository:
//
//	go run ./internal/docs          # in well under a minute
//	go run ./internal/docs -long    # and runs the commands that take long
//
// Links and anchors lead somewhere. Names of the packages exist. All Go compiles; programs are run, and
// tests pass. Every command has a line in commands.txt, which says how it is
// known to work: this program runs it, or names the test or the script that
// does. The README and the pages for users are no longer than they may be.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed commands.txt
var commandsText string

// limits are how many words pages may have, as wc -w counts them, in sum.
var limits = []struct {
	files []string
	words int
}{
	{[]string{"README.md"}, 1200},
	{[]string{"docs/choosing.md", "docs/tuning.md", "docs/migrate.md", "docs/observe.md", "docs/beyond-one-machine.md"}, 5000},
	{[]string{"docs/engines.md"}, 1000},
}

// history tells what was; its commands need not work any more.
var history = []string{"CHANGELOG.md", "development-log.md"}

func main() {
	long := flag.Bool("long", false, "also run the commands that take long: hours")
	flag.Parse()
	problems, err := run(*long)
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, strings.TrimSpace(p))
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
	fmt.Println("the pages are in order")
}

func run(long bool) (problems []string, err error) {
	out, err := exec.Command("go", "env", "GOWORK").Output()
	root := filepath.Dir(strings.TrimSpace(string(out)))
	if err != nil || root == "." {
		return nil, errors.New("docs is to be run in the repository")
	}
	ls := exec.Command("git", "ls-files", "-z", "--deduplicate", "--cached", "--others", "--exclude-standard")
	ls.Dir = root
	if out, err = ls.Output(); err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var pages, told []*page
	var sources []string
	for _, f := range strings.Split(strings.Trim(string(out), "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(root, f)); err != nil {
			continue // deleted, and not committed yet
		}
		switch filepath.Ext(f) {
		case ".go":
			sources = append(sources, f)
		case ".md":
			p, err := readPage(root, f)
			if err != nil {
				return nil, err
			}
			pages = append(pages, p)
			if !slices.Contains(history, filepath.Base(f)) {
				told = append(told, p)
			}
		}
	}
	for _, l := range limits {
		n := 0
		for _, p := range pages {
			if slices.Contains(l.files, p.file) {
				n += len(strings.Fields(p.text))
			}
		}
		if n > l.words {
			problems = append(problems, fmt.Sprintf("%s: %d words, and %d are the most", strings.Join(l.files, ", "), n, l.words))
		}
	}
	problems = append(problems, checkLinks(root, pages)...)
	add := func(found []string, err error) error {
		problems = append(problems, found...)
		return err
	}
	if err := add(checkMentions(root, sources)); err != nil {
		return problems, err
	}
	if err := add(checkNames(root, told)); err != nil {
		return problems, err
	}
	if err := add(checkCode(root, told)); err != nil {
		return problems, err
	}
	proofs, err := readProofs(commandsText)
	if err != nil {
		return problems, err
	}
	return problems, add(checkCommands(root, told, proofs, long))
}
