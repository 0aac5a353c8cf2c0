package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoal-go/shoal/internal/release/tree"
)

// repository makes a repository of the tree as it is, without tags.
func repository(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repository")
	if err := os.CopyFS(dir, os.DirFS(serve(t).Tree.Dir)); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "config", "user.name", "Tester")
	git(t, dir, "config", "user.email", "tester@example.com")
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--message", "all")
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tree.Git(dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// edit writes a file anew and commits it.
func edit(t *testing.T, dir, name string, f func(string) string) {
	t.Helper()
	name = filepath.Join(dir, name)
	data, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(f(string(data))), 0o666); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--message", "edit")
}

func unreleased(text string) func(string) string {
	return func(log string) string {
		return strings.Replace(log, "## [Unreleased]\n", "## [Unreleased]\n\n"+text+"\n", 1)
	}
}

// A release commits and tags; what the go command makes of the tags has the sums
// that the release wrote.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	edit(t, dir, "CHANGELOG.md", unreleased("- A line of notes."))
	before := git(t, dir, "rev-parse", "HEAD")

	var out bytes.Buffer
	if err := release(t.Context(), dir, "v0.999.0", "true", true, &out); err != nil {
		t.Fatal(err)
	}
	if tags := git(t, dir, "tag"); tags != "" || git(t, dir, "rev-parse", "HEAD") != before || git(t, dir, "status", "--porcelain") != "" {
		t.Fatalf("a dry run left tags %q, or changed the tree", tags)
	}
	if err := release(t.Context(), dir, "v0.999.0", "exit 3", false, &out); err == nil || !strings.Contains(err.Error(), "does not pass the checks") {
		t.Fatalf("with checks that fail: %v", err)
	}
	if git(t, dir, "rev-parse", "HEAD") != before || git(t, dir, "worktree", "prune", "--verbose") != "" {
		t.Fatal("a release that failed changed the tree, or left a worktree")
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	if err := release(ctx, dir, "v0.999.0", "kill -INT $PPID; exec sleep 60", false, &out); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Fatalf("with a signal during the checks: %v", err)
	}
	if git(t, dir, "rev-parse", "HEAD") != before || strings.Count(git(t, dir, "worktree", "list"), "\n") != 1 {
		t.Fatal("a release that was interrupted changed the tree, or left a worktree")
	}

	out.Reset()
	if err := release(t.Context(), dir, "v0.999.0", "git diff --quiet HEAD", false, &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "- A line of notes.") || !strings.Contains(got, "    v0.999.0\n") || strings.Index(got, "    contrib/prom/v0.999.0\n") > strings.Index(got, "    cmd/shoal/v0.999.0\n") {
		t.Errorf("it printed %q", got)
	}
	if got := git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("it left changes: %s", got)
	}
	log, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, text, _, _ := cut(string(log), "Unreleased"); strings.TrimSpace(text) != "" {
		t.Errorf("[Unreleased] has %q", text)
	}
	released, err := tree.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if released.Version != "v0.999.0" {
		t.Errorf("the modules require %s of each other", released.Version)
	}

	// Only modules of ours are fetched here, from the repository, into a cache of its own.
	s := stranger{t, t.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOPROXY=direct", "GONOSUMDB="+tree.Root,
		"GOMODCACHE="+filepath.Join(t.TempDir(), "mod"), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+tree.Root)}
	sums, err := os.ReadFile(filepath.Join(dir, "cmd", "shoal", "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range released.Released {
		var got struct{ Sum, GoModSum string }
		if err := json.Unmarshal([]byte(s.run("go", "mod", "download", "-json", m.Path+"@v0.999.0")), &got); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(sums)) {
			f := strings.Fields(line)
			if f[0] == m.Path && f[1] == "v0.999.0" && f[2] != got.Sum || f[0] == m.Path && f[1] == "v0.999.0/go.mod" && f[2] != got.GoModSum {
				t.Errorf("go.sum has %q, and the tag is %+v", line, got)
			}
		}
	}
	if n := strings.Count(string(sums), tree.Root); n < 4 {
		t.Errorf("the go.sum of cmd/shoal has %d lines about modules of this repository", n)
	}

	if err := release(t.Context(), dir, "v0.999.0", "true", false, &out); err == nil || !strings.Contains(err.Error(), "does not come after v0.999.0") {
		t.Errorf("the same version again: %v", err)
	}
	if err := release(t.Context(), dir, "v0.999.1", "true", false, &out); err == nil || !strings.Contains(err.Error(), "says nothing of v0.999.1") {
		t.Errorf("without notes: %v", err)
	}
}

// A release that is not right says so in one line, and changes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	git(t, dir, "tag", "v0.2.0")
	refuse := func(version, want string) {
		t.Helper()
		before := git(t, dir, "rev-parse", "HEAD") + git(t, dir, "tag") + git(t, dir, "status", "--porcelain")
		err := release(t.Context(), dir, version, "true", false, new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, and it is to say in one line: %s", version, err, want)
		}
		if after := git(t, dir, "rev-parse", "HEAD") + git(t, dir, "tag") + git(t, dir, "status", "--porcelain"); after != before {
			t.Errorf("%q: the repository changed", version)
		}
	}
	for _, version := range []string{"", "1.0.0", "v1", "v0.3", "v0.3.0+build", "v0.03.0", "latest"} {
		refuse(version, "is no version")
	}
	refuse("v2.0.0", "does not fit the module path")
	refuse("v0.2.0", "does not come after v0.2.0")
	refuse("v0.2.0-rc.1", "does not come after v0.2.0")
	refuse("v0.1.9", "does not come after v0.2.0")
	if err := os.WriteFile(filepath.Join(dir, "new.txt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	refuse("v0.3.0", "the tree is not clean")
	if err := os.Remove(filepath.Join(dir, "new.txt")); err != nil {
		t.Fatal(err)
	}

	git(t, dir, "tag", "contrib/prom/v0.3.0")
	refuse("v0.3.0", "there is a tag contrib/prom/v0.3.0 already")
	git(t, dir, "tag", "--delete", "contrib/prom/v0.3.0")
	edit(t, dir, "CHANGELOG.md", unreleased("- A line of notes."))
	edit(t, dir, "wrong.go", func(string) string { return "package shoal\n\nvar wrong int = none + less\n" })
	refuse("v0.3.0", "wrong.go:3:17: undefined: none")
	git(t, dir, "rm", "--quiet", "wrong.go")
	git(t, dir, "commit", "--quiet", "--message", "mended")

	// The root is without Fresh, which internal/api/ has.
	edit(t, dir, "internal/api/shoal.txt", func(text string) string { return text + "\nfunc Fresh()\n" })
	refuse("v0.3.0", "a break that CHANGELOG.md does not name: github.com/shoal-go/shoal: Fresh: removed")
	edit(t, dir, "CHANGELOG.md", unreleased("- Breaking: Fresh is gone."))
	refuse("v0.3.0", "run scripts/api -update")
}

func TestCloseLog(t *testing.T) {
	const old = "## [0.1.0] - 2026-01-01\n\nThe first.\n"
	for _, c := range []struct{ name, log, changed, notes, fails string }{
		{"a new section", "# Log\n\n## [Unreleased]\n\n- New.\n\n" + old, "# Log\n\n## [Unreleased]\n\n## [0.2.0] - 2026-02-02\n\n- New.\n\n" + old, "- New.", ""},
		{"a section that is there", "## [Unreleased]\n\n## [0.2.0]\n\nText.\n\n" + old, "## [Unreleased]\n\n## [0.2.0] - 2026-02-02\n\nText.\n\n" + old, "Text.", ""},
		{"both", "## [Unreleased]\n\n- New.\n\n## [0.2.0]\n\nText.\n", "## [Unreleased]\n\n## [0.2.0] - 2026-02-02\n\nText.\n\n- New.\n", "Text.\n\n- New.", ""},
		{"nothing to say", "## [Unreleased]\n\n" + old, "", "", "says nothing of v0.2.0"},
		{"no section", "# Log\n", "", "", "no section [Unreleased]"},
	} {
		changed, notes, err := closeLog(c.log, "v0.2.0", "2026-02-02")
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, and it is to say: %s", c.name, err, c.fails)
			}
			continue
		}
		if err != nil || changed != c.changed || notes != c.notes {
			t.Errorf("%s: %q, %q, %v", c.name, changed, notes, err)
		}
	}
}
