// Package tree knows the modules of a checkout: which there are, which are
// released, and the version that they require of each other.
package tree

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Root is the path of the module at the root.
const Root = "github.com/shoal-go/shoal"

// A Tree is a checkout.
type Tree struct {
	Dir      string
	Version  string   // what the modules require of each other
	Modules  []Module // all, the root first
	Released []Module // in the order of their tags: what a module requires comes before it
}

// A Module is one of a [Tree].
type Module struct {
	Path     string
	Dir      string   // below the tree's, with slashes; "." is the root
	Requires []string // paths of other modules of the tree
}

// Tag returns the tag of a version of the module.
func (m Module) Tag(version string) string { return path.Join(m.Dir, version) }

// Open reads the checkout in dir. Released are the modules that the replace
// directives of the root's go.work name.
func Open(dir string) (*Tree, error) {
	t := &Tree{Dir: dir}
	files, err := t.files("go.mod")
	if err != nil {
		return nil, err
	}
	byPath := map[string]Module{}
	alone := map[string]bool{} // means the same to whoever requires it
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		f, err := modfile.Parse(name, data, nil)
		if err != nil {
			return nil, err
		}
		m := Module{Path: f.Module.Mod.Path, Dir: path.Dir(name)}
		if want := path.Join(Root, m.Dir); m.Path != want {
			return nil, fmt.Errorf("%s: the module is %s, and must be %s, as its folder is", name, m.Path, want)
		}
		for _, r := range f.Require {
			if ours(r.Mod.Path) {
				m.Requires = append(m.Requires, r.Mod.Path)
			}
		}
		alone[m.Path] = len(f.Replace) == 0 && len(f.Exclude) == 0
		byPath[m.Path] = m
		t.Modules = append(t.Modules, m)
	}
	slices.SortFunc(t.Modules, func(a, b Module) int { return cmp.Compare(a.Path, b.Path) })

	data, err := os.ReadFile(filepath.Join(dir, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return nil, err
	}
	released := map[string]bool{}
	for _, r := range work.Replace {
		m, ok := byPath[r.Old.Path]
		if !ok || path.Clean(r.New.Path) != m.Dir {
			return nil, fmt.Errorf("go.work: %s => %s replaces no module of this tree by its folder", r.Old.Path, r.New.Path)
		}
		if t.Version != "" && r.Old.Version != t.Version {
			return nil, fmt.Errorf("go.work: replaces %s at %s, and other modules at %s", r.Old.Path, r.Old.Version, t.Version)
		}
		t.Version = r.Old.Version
		if !alone[m.Path] {
			return nil, fmt.Errorf("%s/go.mod: a released module has no replace or exclude directive: those that require it do not see them, and go install refuses it", m.Dir)
		}
		released[r.Old.Path] = true
	}
	var visit func(m Module) error
	done := map[string]bool{}
	visit = func(m Module) error {
		if done[m.Path] {
			return nil
		}
		done[m.Path] = true
		for _, path := range m.Requires {
			if !released[path] {
				return fmt.Errorf("%s is released, and requires %s, which is not: go.work does not replace it", m.Path, path)
			}
			if err := visit(byPath[path]); err != nil {
				return err
			}
		}
		t.Released = append(t.Released, m)
		return nil
	}
	for _, m := range t.Modules {
		if released[m.Path] {
			if err := visit(m); err != nil {
				return nil, err
			}
		}
	}
	if len(t.Released) == 0 || t.Released[0].Path != Root {
		return nil, fmt.Errorf("go.work: no replace directive names %s, so nothing is released", Root)
	}
	return t, nil
}

func ours(p string) bool { return p == Root || strings.HasPrefix(p, Root+"/") }

// SetVersion makes all modules require version of each other, in each go.mod and
// go.work of the tree. Sums of other versions leave go.sum.
func (t *Tree) SetVersion(version string) error {
	mods, err := t.files("go.mod")
	if err != nil {
		return err
	}
	for _, name := range mods {
		err := t.rewrite(name, func(data []byte) ([]byte, error) {
			f, err := modfile.Parse(name, data, nil)
			if err != nil {
				return nil, err
			}
			for _, r := range f.Require {
				if ours(r.Mod.Path) {
					if err := f.AddRequire(r.Mod.Path, version); err != nil {
						return nil, err
					}
				}
			}
			return f.Format()
		})
		if err != nil {
			return err
		}
	}
	works, err := t.files("go.work")
	if err != nil {
		return err
	}
	for _, name := range works {
		err := t.rewrite(name, func(data []byte) ([]byte, error) {
			f, err := modfile.ParseWork(name, data, nil)
			if err != nil {
				return nil, err
			}
			for _, r := range f.Replace {
				if i := slices.Index(r.Syntax.Token, r.Old.Version); ours(r.Old.Path) && i > 0 {
					r.Syntax.Token[i] = version
				}
			}
			return modfile.Format(f.Syntax), nil
		})
		if err != nil {
			return err
		}
	}
	t.Version = version
	for _, m := range t.Modules {
		if err := t.SetSums(m, nil); err != nil {
			return err
		}
	}
	return nil
}

// SetSums replaces what the go.sum of a module has about modules of the tree.
func (t *Tree) SetSums(m Module, sums []string) error {
	name := path.Join(m.Dir, "go.sum")
	data, err := os.ReadFile(filepath.Join(t.Dir, name))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	lines := slices.Clone(sums)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !ours(strings.Fields(line)[0]) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 && len(data) == 0 {
		return nil
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(t.Dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o666)
}

func (t *Tree) rewrite(name string, f func([]byte) ([]byte, error)) error {
	file := filepath.Join(t.Dir, name)
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := f(data)
	if err != nil || bytes.Equal(data, changed) {
		return err
	}
	return os.WriteFile(file, changed, 0o666)
}

// files returns the paths, with slashes, of all files of that name.
func (t *Tree) files(name string) ([]string, error) {
	all, err := Files(t.Dir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p string) bool { return path.Base(p) != name }), nil
}

// Files returns the paths of the files that git has in dir, or would add.
func Files(dir string) ([]string, error) {
	out, err := Git(dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// Git runs git in dir and returns what it prints.
func Git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if e, ok := err.(*exec.ExitError); ok {
			stderr = bytes.TrimSpace(e.Stderr)
		}
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, stderr)
	}
	return string(out), nil
}
