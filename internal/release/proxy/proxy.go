// Package proxy makes a file-system module proxy of the modules of a tree, as the
// go command would make them of its tags.
package proxy

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"

	"github.com/shoal-go/shoal/internal/release/tree"
)

// Write writes the released modules of a tree to the proxy in dir, at the version
// that they require of each other. It writes their sums to the go.sum of each
// module that requires them, before that is written itself.
func Write(t *tree.Tree, dir string) error {
	sums := map[string][]string{}
	for _, m := range t.Released {
		var need []string
		for _, path := range m.Requires {
			need = append(need, sums[path]...)
		}
		if err := t.SetSums(m, need); err != nil {
			return err
		}
		s, err := write(t, m, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		sums[m.Path] = s
	}
	return nil
}

// write writes one module, and returns its lines for go.sum.
func write(t *tree.Tree, m tree.Module, dir string) (sums []string, err error) {
	mv := module.Version{Path: m.Path, Version: t.Version}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return nil, err
	}
	to := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(to, 0o777); err != nil {
		return nil, err
	}
	root := filepath.Join(t.Dir, filepath.FromSlash(m.Dir))
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	names, err := tree.Files(root)
	if err != nil {
		return nil, err
	}
	var files []zip.File
	for _, name := range names {
		files = append(files, file{root, name})
	}
	if !slices.Contains(names, "LICENSE") {
		files = append(files, file{t.Dir, "LICENSE"}) // the go command does the same
	}
	var packed bytes.Buffer
	if err := zip.Create(&packed, mv, files); err != nil {
		return nil, err
	}
	base := filepath.Join(to, t.Version)
	info := fmt.Sprintf("{\"Version\":%q,\"Time\":%q}\n", t.Version, time.Unix(0, 0).UTC().Format(time.RFC3339))
	for name, data := range map[string][]byte{base + ".zip": packed.Bytes(), base + ".mod": mod, base + ".info": []byte(info), filepath.Join(to, "list"): []byte(t.Version + "\n")} {
		if err := os.WriteFile(name, data, 0o666); err != nil {
			return nil, err
		}
	}
	sum, err := dirhash.HashZip(base+".zip", dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	modSum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(mod)), nil })
	if err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprintf("%s %s %s", m.Path, t.Version, sum),
		fmt.Sprintf("%s %s/go.mod %s", m.Path, t.Version, modSum),
	}, nil
}

// A file is one of a module, below its root.
type file struct{ root, name string }

func (f file) Path() string                 { return path.Clean(f.name) }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.full()) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.full()) }
func (f file) full() string                 { return filepath.Join(f.root, filepath.FromSlash(f.name)) }
