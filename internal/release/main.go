// Command release makes the releases of all modules of this repository, and looks
// after what they promise. See docs/releasing.md.
//
//	release [-dry-run] [-check COMMAND] VERSION
//	release api [-update]
//	release tidy
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/shoal-go/shoal/internal/release/api"
	"github.com/shoal-go/shoal/internal/release/tree"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "release:", err)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	top, err := tree.Git(".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	dir := strings.TrimSpace(top)
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	switch command {
	case "api":
		update := flags.Bool("update", false, "write the files of internal/api/ anew")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return checkAPI(dir, *update)
	case "tidy":
		return tidy(dir)
	}
	dry := flags.Bool("dry-run", false, "do everything, and leave no commit and no tag")
	check := flags.String("check", "make check", "the `command` that the released tree must pass")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("one version is to be given, as in v0.1.0, after the flags: got %q", flags.Args())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return release(ctx, dir, flags.Arg(0), *check, *dry, os.Stdout)
}

// checkAPI compares the packages of the tree with the files of internal/api/. With update it
// writes these, once every break is named.
func checkAPI(dir string, update bool) error {
	t, err := tree.Open(dir)
	if err != nil {
		return err
	}
	pkgs, err := api.Load(t)
	if err != nil {
		return err
	}
	files := filepath.Join(dir, "internal", "api")
	changes, err := api.Compare(os.DirFS(files), pkgs)
	if err != nil {
		return err
	}
	log, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	_, _, unreleased, _, _ := cut(string(log), "Unreleased")
	for _, c := range changes {
		fmt.Println(c)
	}
	if unnamed := api.Unnamed(changes, unreleased); len(unnamed) > 0 {
		return fmt.Errorf("%w, in the section [Unreleased]", unnamedError(unnamed))
	}
	if update {
		return api.Update(files, pkgs)
	}
	if len(changes) > 0 {
		return fmt.Errorf("%d changes of the API are not in internal/api/: run scripts/api -update, and look at what it changes", len(changes))
	}
	fmt.Printf("the API of %d packages is that of internal/api/\n", len(pkgs))
	return nil
}

func unnamedError(unnamed []api.Change) error {
	more := ""
	if n := len(unnamed) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Errorf("a break that CHANGELOG.md does not name: %s%s: a line that begins with \"Breaking:\" is to name it", unnamed[0], more)
}
