package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/shoal-go/shoal/internal/release/proxy"
	"github.com/shoal-go/shoal/internal/release/tree"
)

// tidy runs go mod tidy in every module. The go command does not look at a workspace
// for that, so the modules are served to it from a copy.
func tidy(dir string) error {
	t, err := tree.Open(dir)
	if err != nil {
		return err
	}
	c, err := proxy.Serve(t)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, m := range c.Tree.Modules {
		cmd := exec.Command("go", "mod", "tidy")
		cmd.Dir, cmd.Env = filepath.Join(c.Tree.Dir, m.Dir), c.Env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go mod tidy in %s: %w: %s", m.Dir, err, out)
		}
	}
	if err := c.Tree.SetVersion(t.Version); err != nil {
		return err
	}
	for _, m := range t.Modules {
		sums, err := os.ReadFile(filepath.Join(dir, m.Dir, "go.sum"))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		var ours []string
		for line := range strings.Lines(string(sums)) {
			if strings.HasPrefix(line, tree.Root+" ") || strings.HasPrefix(line, tree.Root+"/") {
				ours = append(ours, strings.TrimSpace(line))
			}
		}
		if err := c.Tree.SetSums(m, ours); err != nil {
			return err
		}
		for _, name := range []string{"go.mod", "go.sum"} {
			data, err := os.ReadFile(filepath.Join(c.Tree.Dir, m.Dir, name))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, m.Dir, name), data, 0o666); err != nil {
				return err
			}
		}
	}
	return nil
}
