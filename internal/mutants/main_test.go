package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// underscores makes a name what go test makes of it.
var underscores = strings.NewReplacer(" ", "_")

// TestEveryMutantApplies: each changes one place that is there, and what is to
// kill it exists. Whether it is killed, make mutants tells.
func TestEveryMutantApplies(t *testing.T) {
	const root = "../.."
	var tests strings.Builder
	for _, glob := range []string{"tests/*_test.go", "tests/models/*_test.go", "internal/*/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(data)
		}
	}
	var names []string
	for _, m := range regexp.MustCompile(`func (Test\w+)\(|Name: "([a-z]+/[^"]*)"|\tadd\("([^"]*)"`).FindAllStringSubmatch(tests.String(), -1) {
		names = append(names, underscores.Replace(m[1]+m[2]+m[3]))
	}
	files, err := code(root)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range mutants {
		if seen[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		seen[m.name] = true
		if _, _, err := find(files, m.old); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if m.old == m.new {
			t.Errorf("%s changes nothing", m.name)
		}
		for _, pattern := range []string{m.models, m.tests} {
			if pattern == "" {
				continue
			}
			for part := range strings.SplitSeq(underscores.Replace(pattern), "/") { // as go test -run has it
				if !slices.ContainsFunc(names, regexp.MustCompile(part).MatchString) {
					t.Errorf("%s: nothing is called %q of %q", m.name, part, pattern)
				}
			}
		}
		if m.models == "" && m.tests == "" {
			t.Errorf("%s: nothing is to kill it", m.name)
		}
	}
	if len(mutants) < 30 {
		t.Errorf("%d mutants", len(mutants))
	}
}
