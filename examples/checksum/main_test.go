package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// asProgram in the environment makes the test binary the program, for what
// takes a process of its own.
const asProgram = "CHECKSUM_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

// oddTree makes a tree in dir and returns its files in the order of a walk.
func oddTree(t *testing.T, dir string) (names []string, contents map[string][]byte) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the names are not for Windows")
	}
	names = []string{
		" space in front",
		"*star",
		"-q",
		"Upper",
		"a/b", "a/c/d", "a/é", // the directory, then what its name is a prefix of
		"a b",
		"a.txt",
		`back\nslash`,
		`back\slash`,
		"carriage\rreturn",
		"empty",
		"large",
		"new\nline/and\nmore",
		"tab\t",
		"ünicode ☃",
	}
	if runtime.GOOS == "linux" {
		names = append(names, "\xffnot UTF-8")
	}
	contents = map[string][]byte{
		"empty": {},
		"large": bytes.Repeat([]byte("0123456789"), 300_001), // ends inside of a buffer
	}
	for _, name := range names {
		if contents[name] == nil {
			contents[name] = []byte("this is " + name)
		}
		write(t, filepath.Join(dir, name), contents[name])
	}
	for link, target := range map[string]string{"link": "large", "dirlink": "a", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return names, contents
}

func TestSumsOfOddTree(t *testing.T) {
	t.Chdir(t.TempDir())
	names, contents := oddTree(t, "tree")
	for _, err := range []error{
		os.MkdirAll("elsewhere/below", 0o777),
		os.Symlink("tree", "linked"),
		os.Symlink("../tree/a", "elsewhere/up"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	abs, err := filepath.Abs("tree")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, prefix string
		flags       []string
	}{
		{dir: "tree", prefix: "tree/"},
		{dir: "tree", prefix: "tree/", flags: []string{"-workers", "1"}},
		{dir: "./tree//", prefix: "./tree//", flags: []string{"-workers=7"}},
		{dir: abs, prefix: abs + "/"},
		{dir: "linked", prefix: "linked/"},
		{dir: "elsewhere/below/../../tree", prefix: "elsewhere/below/../../tree/"},
		{dir: "elsewhere/up/..", prefix: "elsewhere/up/../"},
	} {
		t.Run(c.dir, func(t *testing.T) {
			var want strings.Builder
			for _, name := range names {
				path := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(c.prefix + name)
				if path != c.prefix+name {
					want.WriteByte('\\')
				}
				fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(contents[name]), path)
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append(c.flags, c.dir), &stdout, &stderr)
			if code != 0 {
				t.Errorf("status %d", code)
			}
			diff(t, stdout.String(), want.String())
			reports := strings.Split(stderr.String(), "\n")
			if last := reports[max(0, len(reports)-2)]; !strings.HasPrefix(last, fmt.Sprintf("checksum: %d files, 3.0 MB, ", len(names))) {
				t.Errorf("the last line on stderr is %q, want %d files, 3.0 MB", last, len(names))
			}
			checkWithSha256sum(t, stdout.String())
		})
	}
}

// diff reports the first line that is not as it should be.
func diff(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			t.Fatalf("line %d is missing, want %q", i+1, w[i])
		case i >= len(w):
			t.Fatalf("line %d is %q, want none", i+1, g[i])
		case g[i] != w[i]:
			t.Fatalf("line %d is %q, want %q", i+1, g[i], w[i])
		}
	}
}

// checkWithSha256sum has sha256sum, if there is one that knows this format,
// check sums.
func checkWithSha256sum(t *testing.T, sums string) {
	t.Helper()
	out, err := exec.Command("sha256sum", "tree/carriage\rreturn").Output()
	if err != nil || !bytes.HasPrefix(out, []byte{'\\'}) {
		t.Log("not checked by sha256sum: none here, or older than coreutils 9")
		return
	}
	check := exec.Command("sha256sum", "-c", "--strict", "--quiet", "-")
	check.Stdin = strings.NewReader(sums)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum -c: %v\n%s", err, out)
	}
}

// emptyFiles makes files in dir, named by number, and returns the lines for
// them. They are one file with many names: that is much faster to make.
func emptyFiles(t *testing.T, dir string, from, to int) (lines string) {
	t.Helper()
	for i := from; i < to; i++ {
		path := fmt.Sprintf("%s/%05d", dir, i)
		if i == from {
			write(t, path, nil)
		} else if err := os.Link(fmt.Sprintf("%s/%05d", dir, from), path); err != nil {
			t.Fatal(err)
		}
		lines += line(path, sha256.New().Sum(nil))
	}
	return lines
}

// A firstWrite calls f before the first of its writes.
type firstWrite struct {
	bytes.Buffer
	f func()
}

func (w *firstWrite) Write(p []byte) (int, error) {
	if w.f != nil {
		w.f()
		w.f = nil
	}
	return w.Buffer.Write(p)
}

// WriteString hides that of the Buffer.
func (w *firstWrite) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// When the first line is printed no file is open, and no directory read, that
// is more than lookAhead files further on. So what happens to these then,
// happens between the walk's look at them and their being opened.
func TestUnreadable(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(path string) error
		reason string
	}{
		{"removed", os.RemoveAll, "no such file or directory"},
		{"forbidden", func(path string) error { return os.Chmod(path, 0) }, "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case runtime.GOOS == "windows":
				t.Skip("other errors on Windows")
			case c.name == "forbidden" && os.Geteuid() == 0:
				t.Skip("nothing is forbidden to root")
			}
			t.Chdir(t.TempDir())
			want := emptyFiles(t, "d", 0, lookAhead+2)
			write(t, "d/bad\nfile", nil)
			write(t, "d/baddir/file", nil)
			want += emptyFiles(t, "d/last", 0, 1)

			stdout := &firstWrite{f: func() {
				for _, path := range []string{"d/bad\nfile", "d/baddir"} {
					if err := c.spoil(path); err != nil {
						t.Error(err)
					}
				}
			}}
			defer os.Chmod("d/baddir", 0o777) // else it stays
			var stderr bytes.Buffer
			code := run(t.Context(), []string{"-q", "d"}, stdout, &stderr)
			if code != exitFailed {
				t.Errorf("status %d, want %d", code, exitFailed)
			}
			diff(t, stdout.String(), want)
			wantErr := fmt.Sprintf("checksum: open \"d/bad\\nfile\": %s\nchecksum: open d/baddir: %[1]s\n", c.reason)
			if stderr.String() != wantErr {
				t.Errorf("stderr\n%swant\n%s", &stderr, wantErr)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "file", nil)
	for _, c := range []struct {
		args string
		code int
		want string // on stderr, on stdout if code is 0
	}{
		{"", exitUsage, "checksum: no DIR given; " + usage},
		{"-q", exitUsage, "checksum: no DIR given; " + usage},
		{". .", exitUsage, `checksum: more than one DIR given: ["." "."]; ` + usage},
		{". -q", exitUsage, `checksum: more than one DIR given: ["." "-q"]; ` + usage},
		{"missing", exitUsage, "checksum: stat missing: no such file or directory"},
		{"file", exitUsage, "checksum: open file: not a directory"},
		{"-workers 0 .", exitUsage, `checksum: invalid value "0" for flag -workers: want a number from 1 to 16777216`},
		{"-workers -3 .", exitUsage, `checksum: invalid value "-3" for flag -workers: want a number from 1 to 16777216`},
		{"-workers 16777217 .", exitUsage, `checksum: invalid value "16777217" for flag -workers: want a number from 1 to 16777216`},
		{"-workers many .", exitUsage, `checksum: invalid value "many" for flag -workers: want a number from 1 to 16777216`},
		{"-x .", exitUsage, "checksum: flag provided but not defined: -x"},
		{"-h", 0, usage},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
			said, silent := &stderr, &stdout
			if c.code == 0 {
				said, silent = silent, said
			}
			if code != c.code || said.String() != c.want+"\n" || silent.Len() > 0 {
				t.Errorf("status %d, stdout %q, stderr %q; want %d, %q", code, &stdout, &stderr, c.code, c.want)
			}
		})
	}
}

// stuckTree makes a tree whose files 1 and 3 take too long to read for a test,
// and which is too large for the walk to end before that. It returns the line
// for the first file.
func stuckTree(t *testing.T) (dir, first string) {
	t.Helper()
	dir = t.TempDir()
	first = emptyFiles(t, dir, 0, 1)
	emptyFiles(t, dir, 2, 3)
	emptyFiles(t, dir, 4, lookAhead+6)
	for _, name := range []string{"/00001", "/00003"} {
		write(t, dir+name, nil)
		if err := os.Truncate(dir+name, 1<<40); err != nil {
			t.Skip("no sparse files here:", err)
		}
	}
	return dir, first
}

func TestInterrupt(t *testing.T) {
	dir, first := stuckTree(t)
	for _, c := range []struct {
		name   string
		before bool
		want   string
	}{
		{"before the start", true, ""},
		{"during the first line", false, first},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.before {
				cancel()
			}
			stdout := &firstWrite{f: cancel}
			var stderr bytes.Buffer
			code := run(ctx, []string{"-q", dir}, stdout, &stderr)
			if code != exitInterrupted || stdout.String() != c.want || stderr.String() != "checksum: interrupted\n" {
				t.Errorf("status %d, stdout %q, stderr %q; want %d, %q", code, stdout, &stderr, exitInterrupted, c.want)
			}
		})
	}
}

func TestProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGINT, no SIGPIPE")
	}
	dir, first := stuckTree(t)
	for _, c := range []struct {
		name   string
		f      func(p *os.Process, stdout *os.File) error // after the first line
		code   int
		stderr string
	}{
		{"SIGINT", func(p *os.Process, _ *os.File) error { return p.Signal(os.Interrupt) },
			exitInterrupted, "checksum: interrupted\n"},
		{"closed pipe", func(_ *os.Process, stdout *os.File) error {
			// The next line comes when this file is no longer large. Another is.
			return errors.Join(stdout.Close(), os.Truncate(dir+"/00001", 0))
		}, exitFailed, "checksum: write /dev/stdout: broken pipe\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-q", dir)
			cmd.Env = append(os.Environ(), asProgram+"=1")
			cmd.Stdout, cmd.Stderr = w, &stderr
			err = cmd.Start()
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			got, err := bufio.NewReader(r).ReadString('\n')
			if err != nil || got != first {
				t.Errorf("first line %q, %v; want %q", got, err, first)
			}
			if err := c.f(cmd.Process, r); err != nil {
				t.Error(err)
			}
			if c.code == exitInterrupted {
				if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
					t.Errorf("after the first line: %q, %v", rest, err)
				}
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || stderr.String() != c.stderr {
				t.Errorf("status %d, stderr %q; want %d, %q", code, &stderr, c.code, c.stderr)
			}
		})
	}
}

func TestLiveReport(t *testing.T) {
	var out bytes.Buffer
	r := report{w: &out, live: true}
	r.files.Store(1)
	r.progress()
	r.say("trouble")
	r.progress()
	r.last()
	const line, blank = "1 file, 0.0 MB, 0.0 MB/s", "                        "
	want := "\r" + line + "\r" + blank + "\rchecksum: trouble\n" +
		"\r" + line + "\r" + blank + "\rchecksum: " + line + "\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}
