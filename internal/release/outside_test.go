package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/shoal-go/shoal/internal/release/proxy"
	"github.com/shoal-go/shoal/internal/release/tree"
)

const top = "../.."

var served = sync.OnceValues(func() (*proxy.Copy, error) {
	dir, err := filepath.Abs(top)
	if err != nil {
		return nil, err
	}
	t, err := tree.Open(dir)
	if err != nil {
		return nil, err
	}
	return proxy.Serve(t)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if c, err := served(); err == nil {
		c.Close()
	}
	os.Exit(code)
}

func serve(t *testing.T) *proxy.Copy {
	c, err := served()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A stranger is somebody in an empty folder with the proxy.
type stranger struct {
	*testing.T
	dir string
	env []string
}

func newStranger(t *testing.T) stranger {
	return stranger{t, t.TempDir(), serve(t).Env}
}

func (s stranger) run(name string, args ...string) string {
	s.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (s stranger) write(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o666); err != nil {
		s.Fatal(err)
	}
}

// packages returns the packages of a module that are not internal, by their names.
func packages(t *testing.T, c *proxy.Copy, m tree.Module) (libraries, commands []string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", "{{.Name}} {{.ImportPath}}", "./...")
	cmd.Dir, cmd.Env = filepath.Join(top, m.Dir), append(os.Environ(), "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", m.Dir, err)
	}
	for line := range strings.Lines(string(out)) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.Contains(path+"/", "/internal/"):
		case name == "main":
			commands = append(commands, path)
		default:
			libraries = append(libraries, path)
		}
	}
	return libraries, commands
}

// Every module can be had from a proxy, and a program that imports all its packages
// can be built and run.
func TestGetEveryModule(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, m := range c.Tree.Released {
		libraries, _ := packages(t, c, m)
		if len(libraries) == 0 {
			continue
		}
		t.Run(strings.ReplaceAll(m.Dir, "/", "-"), func(t *testing.T) {
			t.Parallel()
			s := newStranger(t)
			var program strings.Builder
			program.WriteString("package main\n\n")
			for _, path := range libraries {
				fmt.Fprintf(&program, "import _ %q\n", path)
			}
			program.WriteString("\nfunc main() { println(\"ran\") }\n")
			s.run("go", "mod", "init", "example.com/stranger")
			s.run("go", "get", m.Path+"@"+c.Tree.Version)
			s.write("main.go", program.String())
			s.run("go", "mod", "tidy")
			if got := s.run("go", "run", "."); !strings.Contains(got, "ran") {
				t.Errorf("the program printed %q", got)
			}
		})
	}
}

// The commands can be installed, and know which version they are.
func TestInstallCommands(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, m := range c.Tree.Released {
		if !strings.HasPrefix(m.Dir, "cmd/") {
			continue
		}
		t.Run(filepath.Base(m.Dir), func(t *testing.T) {
			t.Parallel()
			s := newStranger(t)
			s.env = append(s.env, "GOBIN="+s.dir)
			s.run("go", "install", m.Path+"@"+c.Tree.Version)
			command := filepath.Join(s.dir, filepath.Base(m.Dir))
			if got := s.run("go", "version", "-m", command); !strings.Contains(got, c.Tree.Version) {
				t.Errorf("the build information does not name %s:\n%s", c.Tree.Version, got)
			}
			if filepath.Base(m.Dir) == "shoal" {
				if got := s.run(command, "version"); !strings.Contains(got, c.Tree.Version) {
					t.Errorf("shoal version printed %q, without %s", got, c.Tree.Version)
				}
			}
		})
	}
}

// The first program of the README can be copied and run.
func TestProgramOfTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(readme)
	if program == nil {
		t.Fatal("the README has no program: a block of Go that begins with package main")
	}
	s := newStranger(t)
	s.run("go", "mod", "init", "example.com/stranger")
	s.run("go", "get", tree.Root+"@"+serve(t).Tree.Version)
	s.write("main.go", string(program[1]))
	if got := s.run("go", "run", "."); strings.TrimSpace(got) == "" {
		t.Error("the program printed nothing")
	}
}

// The zip of the root is what a user of the library downloads.
func TestZipOfTheRoot(t *testing.T) {
	c := serve(t)
	name := filepath.Join(c.Proxy(), filepath.FromSlash(tree.Root), "@v", c.Tree.Version+".zip")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KB", len(data)>>10)
	if most := 2 << 20; len(data) > most {
		t.Errorf("the zip has %d bytes, and is to have %d at most", len(data), most)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	prefix := tree.Root + "@" + c.Tree.Version + "/"
	license := false
	for _, f := range z.File {
		name := strings.TrimPrefix(f.Name, prefix)
		license = license || name == "LICENSE"
		for _, m := range c.Tree.Modules {
			if m.Dir != "." && strings.HasPrefix(name, m.Dir+"/") {
				t.Errorf("it has %s, of the module %s", name, m.Path)
			}
		}
	}
	if !license {
		t.Error("it has no LICENSE")
	}
}
