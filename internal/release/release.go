package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/shoal-go/shoal/internal/release/api"
	"github.com/shoal-go/shoal/internal/release/proxy"
	"github.com/shoal-go/shoal/internal/release/tree"
)

// release commits and tags a version of all released modules. It works in a worktree
// beside dir's, so that dir changes once all is right, or not at all. If ctx ends before that,
// release ends the checks, removes the worktree and returns an error.
func release(ctx context.Context, dir, version, check string, dry bool, out io.Writer) error {
	last, err := lastTag(dir)
	if err != nil {
		return err
	}
	if err := checkVersion(version, last); err != nil {
		return err
	}
	status, err := tree.Git(dir, "status", "--porcelain")
	if err != nil {
		return err
	}
	if first, _, _ := strings.Cut(status, "\n"); first != "" {
		return fmt.Errorf("the tree is not clean: %q", first)
	}

	beside, err := os.MkdirTemp("", "shoal-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(beside)
	work := filepath.Join(beside, "tree")
	if _, err := tree.Git(dir, "worktree", "add", "--quiet", "--detach", work); err != nil {
		return err
	}
	defer tree.Git(dir, "worktree", "remove", "--force", work)

	t, err := tree.Open(work)
	if err != nil {
		return err
	}
	if err := checkTags(t, version); err != nil {
		return err
	}
	name := filepath.Join(work, "CHANGELOG.md")
	log, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	changed, notes, err := closeLog(string(log), version, time.Now().UTC().Format(time.DateOnly))
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, []byte(changed), 0o666); err != nil {
		return err
	}
	if err := checkBreaks(t, version, last, notes, beside); err != nil {
		return err
	}
	if err := t.SetVersion(version); err != nil {
		return err
	}
	if err := proxy.Write(t, filepath.Join(beside, "proxy")); err != nil {
		return err
	}
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", "release: " + version}} {
		if _, err := tree.Git(work, args...); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", check)
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // make passes it on to its commands
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted, so nothing was committed or tagged: %w", context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s does not pass the checks: %s: %w", version, check, err)
	}

	fmt.Fprintf(out, "%s\n\nTags, in the order in which to push them:\n\n", notes)
	for _, m := range t.Released {
		fmt.Fprintln(out, "   ", m.Tag(version))
	}
	if dry {
		fmt.Fprintln(out, "\nA dry run: nothing was committed or tagged.")
		return nil
	}
	commit, err := tree.Git(work, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if _, err := tree.Git(dir, "merge", "--quiet", "--ff-only", strings.TrimSpace(commit)); err != nil {
		return err
	}
	for _, m := range t.Released {
		if _, err := tree.Git(dir, "tag", "--annotate", "--message", path.Join(m.Dir, version), m.Tag(version), strings.TrimSpace(commit)); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "\nCommitted and tagged here. Nothing was pushed.")
	return nil
}

// checkVersion reports why version cannot follow last, which may be empty.
func checkVersion(version, last string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version || semver.Build(version) != "" {
		return fmt.Errorf("%q is no version: it is to be vMAJOR.MINOR.PATCH, or that with -PRERELEASE", version)
	}
	if err := module.Check(tree.Root, version); err != nil {
		return fmt.Errorf("%s does not fit the module path %s, which is for v0 and v1", version, tree.Root)
	}
	if last != "" && semver.Compare(version, last) <= 0 {
		return fmt.Errorf("%s does not come after %s, the last release", version, last)
	}
	return nil
}

// checkTags reports a tag of version that is there already, of whichever module: then only
// some of the modules could be tagged.
func checkTags(t *tree.Tree, version string) error {
	for _, m := range t.Released {
		switch tag, err := tree.Git(t.Dir, "tag", "--list", m.Tag(version)); {
		case err != nil:
			return err
		case tag != "":
			return fmt.Errorf("%s cannot be released: there is a tag %s already", version, m.Tag(version))
		}
	}
	return nil
}

// lastTag returns the largest version that the root has been tagged with.
func lastTag(dir string) (string, error) {
	tags, err := tree.Git(dir, "tag", "--list", "v*")
	if err != nil {
		return "", err
	}
	last := ""
	for tag := range strings.FieldsSeq(tags) {
		if semver.IsValid(tag) && (last == "" || semver.Compare(tag, last) > 0) {
			last = tag
		}
	}
	return last, nil
}

// checkBreaks compares the tree with the files of internal/api/, and with those of the last
// release, whose breaks the notes are to name.
func checkBreaks(t *tree.Tree, version, last, notes, scratch string) error {
	pkgs, err := api.Load(t)
	if err != nil {
		return err
	}
	changes, err := api.Compare(os.DirFS(filepath.Join(t.Dir, "internal", "api")), pkgs)
	if err != nil {
		return err
	}
	if unnamed := api.Unnamed(changes, notes); len(unnamed) > 0 {
		return unnamedError(unnamed)
	}
	if len(changes) > 0 {
		return fmt.Errorf("internal/api/ is not that of the tree: %s: run scripts/api -update and commit it", changes[0])
	}
	if last == "" {
		return nil
	}
	files, err := tree.Git(t.Dir, "ls-tree", "-r", "--name-only", last, "internal/api/")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(files) {
		text, err := tree.Git(t.Dir, "show", last+":"+name)
		if err != nil {
			return err
		}
		file := filepath.Join(scratch, "last", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			return err
		}
	}
	if changes, err = api.Compare(os.DirFS(filepath.Join(scratch, "last", "internal", "api")), pkgs); err != nil {
		return err
	}
	if unnamed := api.Unnamed(changes, notes); len(unnamed) > 0 {
		return unnamedError(unnamed)
	}
	for _, c := range changes {
		if c.Break && (semver.Major(version) != "v0" || semver.MajorMinor(version) == semver.MajorMinor(last)) {
			return fmt.Errorf("%s may not break what %s has: %s", version, last, c)
		}
	}
	return nil
}
