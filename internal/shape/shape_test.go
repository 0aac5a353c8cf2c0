package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const kernelDir = "../kernel"

// kernelWith is the kernel with text put at the end of file.
func kernelWith(t *testing.T, file, text string) *code {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	replace := map[string]string{}
	if file != "" {
		src, err := os.ReadFile(filepath.Join(kernelDir, file))
		if err != nil {
			t.Fatal(err)
		}
		replace[file] = string(src) + text
	}
	c, err := load(kernelDir, replace)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheKernelKeepsToItsDirection(t *testing.T) {
	c := kernelWith(t, "", "")
	for _, f := range c.directions() {
		t.Error(f)
	}
	for _, f := range c.ownership() {
		t.Error(f)
	}
	for _, f := range c.pairs() {
		t.Error(f)
	}
}

// TestFaultsAreFound: what must not be in the kernel is found where it is added.
func TestFaultsAreFound(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"an unlock elsewhere", "crew.go", "\nfunc (c *Crew) add() { c.mu.Unlock() }\n", "Crew.add writes Crew.mu"},
		{"a lock elsewhere", "lane.go", "\nfunc (l *Lane) add() { l.crew.mu.Lock() }\n", "Lane.add writes Crew.mu"},
		{"a lock by its address", "lane.go", "\nfunc (l *Lane) add() { m := &l.crew.mu; m.Unlock() }\n", "Lane.add writes Crew.mu"},
		{"an upward call", "line.go", "\nfunc add(l *Lane) { l.Release() }\n", "add calls Lane.Release, up in gate.go"},
		{"a method that is handed up", "line.go", "\nfunc add(l *Lane) func() { return l.Release }\n", "add calls Lane.Release, up in gate.go"},
		{"a word that others own", "run.go", "\nfunc (c *Crew) add() { c.wake.Add(1) }\n", "Crew.add writes Crew.wake"},
		{"an embedded field that others own", "run.go", "\nfunc (l *Lane) add() { l.granted = 1 }\n", "Lane.add writes account.granted"},
		{"a return with the lock", "quiet.go", "\nfunc (c *Crew) add(b bool) {\n\tc.enter()\n\tif b {\n\t\treturn\n\t}\n\tc.leave()\n}\n", "Crew.add returns with the lock"},
		{"a deferred leaving, and another one", "quiet.go", "\nfunc (c *Crew) add(b bool) {\n\tc.enter()\n\tdefer c.leave()\n\tif b {\n\t\tc.leave()\n\t}\n}\n", "Crew.add ends without the lock"},
		{"a deferred leaving without the lock", "quiet.go", "\nfunc (c *Crew) add() {\n\tdefer c.leave()\n\tc.enter()\n}\n", "Crew.add defers leaving without the lock"},
		{"an end with the lock", "quiet.go", "\nfunc (c *Crew) add() { c.enter() }\n", "Crew.add ends with the lock"},
		{"two leavings", "quiet.go", "\nfunc (c *Crew) add(b bool) {\n\tc.enter()\n\tif b {\n\t\tc.leave()\n\t}\n\tc.leave()\n}\n", "Crew.add leaves without the lock"},
		{"a loop that enters twice", "quiet.go", "\nfunc (c *Crew) add() {\n\tfor {\n\t\t\tc.enter()\n\t\tif c.live > 0 {\n\t\t\tcontinue\n\t\t}\n\t\tc.leave()\n\t}\n}\n", "Crew.add enters with the lock"},
		{"a reading within", "quiet.go", "\nfunc (c *Crew) add() {\n\tc.enter()\n\tc.read(func() {})\n\tc.leave()\n}\n", "Crew.add reads with the lock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := kernelWith(t, c.file, c.text)
			all := strings.Join(append(append(k.directions(), k.ownership()...), k.pairs()...), "\n")
			if !strings.Contains(all, c.want) {
				t.Errorf("want %q, got %q", c.want, all)
			}
		})
	}
}

func TestCodeLines(t *testing.T) {
	const src = "package p // a comment\n\n// another one\nvar s = `a\nb\n` /* and\none */\n\nfunc f() {\n}\n"
	if n := codeLines([]byte(src)); n != 6 {
		t.Errorf("%d lines, want 6", n)
	}
}

func TestCeilings(t *testing.T) {
	const text = "# why\n   10     5  a b\n    7     -  c\n    3     -  d\n"
	parse := func() map[string]*ceiling {
		t.Helper()
		c, err := parseCeilings(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ceilings := parse()
	faults := compare([]figure{{"a b", 4}, {"c", 8}, {"e", 1}}, ceilings, false)
	got := strings.Join(faults, "; ")
	for _, want := range []string{"c: 8, and 7 are the most", "e: 1, and there is no ceiling", "d: there is a ceiling, and nothing was counted"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
	if len(faults) != 3 {
		t.Errorf("faults: %q", got)
	}
	ceilings = parse()
	if faults := compare([]figure{{"a b", 4}, {"c", 6}}, ceilings, true); faults != nil {
		t.Errorf("faults: %q", faults)
	}
	if got, want := formatCeilings(text, ceilings), "# why\n    5     5  a b\n    6     -  c\n"; got != want {
		t.Errorf("lowered: %q, want %q", got, want)
	}
	if _, err := parseCeilings("x - y\n"); err == nil {
		t.Error("a ceiling that is no number")
	}
}
