package proxy

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"

	"github.com/shoal-go/shoal/internal/release/tree"
)

// A Copy is a copy of a tree under a version that nothing else has, in a proxy of
// its own. What the go command keeps of a version it believes for ever, so the tree
// itself is never served under the version that it will be released as.
type Copy struct {
	Tree *tree.Tree
	Env  []string // for commands outside: the environment with the proxy, without the workspace
	dir  string
}

// Serve copies the files of t that git has, or would add, and serves them.
func Serve(t *tree.Tree) (_ *Copy, err error) {
	dir, err := os.MkdirTemp("", "shoal-proxy")
	if err != nil {
		return nil, err
	}
	c := &Copy{dir: dir}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	to := filepath.Join(dir, "tree")
	files, err := tree.Files(t.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(t.Dir, name))
		if err != nil {
			return nil, err
		}
		file := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, data, 0o666); err != nil {
			return nil, err
		}
	}
	if _, err := tree.Git(to, "init", "-q"); err != nil {
		return nil, err
	}
	if c.Tree, err = tree.Open(to); err != nil {
		return nil, err
	}
	if err := c.Tree.SetVersion(fmt.Sprintf("v0.0.1-check.%d", time.Now().UnixNano())); err != nil {
		return nil, err
	}
	if err := Write(c.Tree, c.Proxy()); err != nil {
		return nil, err
	}
	c.Env, err = Env(c.Proxy())
	return c, err
}

// Proxy returns the folder that is served.
func (c *Copy) Proxy() string { return filepath.Join(c.dir, "proxy") }

// Close removes the copy, and what the go command has kept of it.
func (c *Copy) Close() error {
	if c.Tree != nil {
		if cache, err := goEnv("GOMODCACHE"); err == nil {
			for _, m := range c.Tree.Released {
				escaped, err := module.EscapePath(m.Path)
				if err != nil {
					continue
				}
				removeAll(filepath.Join(cache, escaped+"@"+c.Tree.Version))
				kept, _ := filepath.Glob(filepath.Join(cache, "cache", "download", escaped, "@v", c.Tree.Version+".*"))
				for _, name := range kept {
					os.Remove(name)
				}
			}
		}
	}
	return os.RemoveAll(c.dir)
}

// removeAll removes a folder of the module cache, which cannot be written to.
func removeAll(dir string) {
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(name, 0o777)
		}
		return nil
	})
	os.RemoveAll(dir)
}

// Env returns the environment for commands that are to see the modules of a tree in
// the proxy in dir only, all others where the go command finds them, and no workspace.
func Env(dir string) ([]string, error) {
	others, err := goEnv("GOPROXY")
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=file://"+filepath.ToSlash(dir)+","+others, "GONOSUMDB="+tree.Root), nil
}

func goEnv(name string) (string, error) {
	out, err := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(out)), err
}
