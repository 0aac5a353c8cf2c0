package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A program uses an original. Its tests in these packages, which reach the pool, pass as it is.
type program struct {
	module   string // with its version
	original string // the name of the facade
	packages []string
}

var programs = []program{
	{"github.com/influxdata/telegraf@v1.34.0", "pond", []string{"./plugins/processors/snmp_lookup"}},
	{"github.com/milvus-io/milvus/pkg/v2@v2.6.7-0.20251201120310-af64f2acba38", "ants", []string{"./util/conc"}},
	{"github.com/pion/ion-sfu@v1.11.0", "workerpool", []string{"./pkg/sfu"}},
}

func downstream(root, dir string, names []string) error {
	var wrong error
	for _, p := range programs {
		module, version, _ := strings.Cut(p.module, "@")
		if len(names) > 0 && !slices.Contains(names, module) {
			continue
		}
		if err := p.run(root, filepath.Join(dir, strings.ReplaceAll(module, "/", "_")), module, version); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", p.module, err))
		}
	}
	return wrong
}

// run runs the tests of p as it is and with the import changed, and prints how they ended.
func (p program) run(root, dir, module, version string) error {
	sources, _, err := download(".", p.module)
	if err != nil {
		return err
	}
	if err := copyFiles(dir, sources); err != nil {
		return err
	}
	if err := require(dir, root); err != nil {
		return err
	}
	before, err := test(dir, p.packages...)
	if err != nil {
		return err
	}
	changed, err := changeImport(dir, originals[p.original].module, shoal+"/compat/"+p.original)
	if err != nil {
		return err
	}
	for _, pkg := range p.packages {
		deps, err := command(dir, "go", "list", "-deps", "-test", pkg)
		if err != nil {
			return err
		}
		if !slices.Contains(strings.Fields(string(deps)), shoal+"/compat/"+p.original) {
			return fmt.Errorf("the tests of %s do not reach the pool", pkg)
		}
	}
	after, err := test(dir, p.packages...)
	if err != nil {
		return err
	}
	count := func(results map[string]result) (passed, failed int) {
		for _, r := range results {
			switch {
			case r.ok:
				passed++
			case !r.skip:
				failed++
			}
		}
		return passed, failed
	}
	passed, failed := count(before)
	passedAfter, failedAfter := count(after)
	fmt.Printf("%s %s (%s, %d files changed): as it is %d passed, %d failed; on the facade %d passed, %d failed\n",
		module, version, p.original, changed, passed, failed, passedAfter, failedAfter)
	var wrong []string
	for _, test := range slices.Sorted(maps.Keys(before)) {
		b, a := before[test], after[test]
		switch {
		case !b.ok && !b.skip:
			fmt.Printf("  failed as it is %s\n%s\n", test, indent(b.log))
		case !a.ok && !a.skip:
			wrong = append(wrong, test)
			fmt.Printf("  failed on the facade %s\n%s\n", test, indent(a.log))
		}
	}
	if wrong != nil {
		return fmt.Errorf("failed: %s", strings.Join(wrong, ", "))
	}
	return nil
}

// changeImport changes one import path in all Go files of dir, and returns in how many.
func changeImport(dir, from, to string) (changed int, err error) {
	from, to = strconv.Quote(from), strconv.Quote(to)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), from) {
			return err
		}
		changed++
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(text), from, to)), 0o666)
	})
	return changed, err
}
