package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/shoal-go/shoal/cmd/shoal/internal/work"
)

// TestMain: some tests run this program as the command itself.
func TestMain(m *testing.M) {
	if os.Getenv("SHOAL_MAIN") != "" || len(os.Args) == 2 && os.Args[1] == work.GuardCommand {
		main()
		return
	}
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: then those that are started here would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(m.Run())
}

// devNull is where progress goes: a file, and no terminal.
func devNull(t *testing.T) *os.File {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestBadInputIsOneLineAndStatus2(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a file")
	if err := os.WriteFile(file, []byte("not JSON"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string
	}{
		{"", "a command is missing"},
		{"race", `"race"`},
		{"help race", `"race"`},
		{"bench", "shoal-bench"},
		{"bench -quick", "go run github.com/shoal-go/shoal/cmd/shoal-bench@latest"},
		{"version now", `"now"`},
		{"demo now", `"now"`},
		{"demo -listen=", "-listen is empty"},
		{"demo -for -1s", "-for -1s"},
		{"demo -drain -1s", "-drain -1s"},
		{"demo -token short", "5 bytes"},
		{"demo -dir " + filepath.Join(dir, "nothing"), "nothing"},
		{"demo -dir " + strings.ReplaceAll(file, " ", "\x00"), "a file"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "\x00", " ")
			}
			var stdout, stderr bytes.Buffer
			err := run(context.Background(), args, &stdout, devNull(t))
			if n := status(err, &stderr); n != 2 {
				t.Errorf("exit status %d, want 2", n)
			}
			if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, c.want) {
				t.Errorf("it said %q, want one line with %s", got, c.want)
			}
			if stdout.Len() > 0 {
				t.Errorf("and on standard output: %q", stdout.String())
			}
		})
	}
}

// TestAnErrorIsOneLine, also if it is several, or the list of pgx of the servers it has tried.
func TestAnErrorIsOneLine(t *testing.T) {
	for want, err := range map[string]error{
		"a; b": errors.Join(errors.New("a"), errors.New("b")),
		"a; c": fmt.Errorf("a\n\t%w", errors.New("c\n")),
		"a: d": errors.New("a:\n\td"),
	} {
		var said bytes.Buffer
		if n := status(err, &said); n != 1 || said.String() != "shoal: "+want+"\n" {
			t.Errorf("status %d, %q, want %q", n, said.String(), want)
		}
	}
}

func TestHelp(t *testing.T) {
	for args, want := range map[string]string{
		"help": "version", "help work": "-attempts", "help dead": "retry", "help help": "enqueue", "help -h": "enqueue", "-h": "enqueue", "demo -h": "-listen", "enqueue -h": "-once", "dead -h": "retry", "work -h": "-attempts", "version -h": "usage: shoal version",
	} {
		var stdout, stderr bytes.Buffer
		err := run(context.Background(), strings.Fields(args), &stdout, devNull(t))
		if n := status(err, &stderr); n != 0 || stderr.Len() > 0 || !strings.Contains(stdout.String(), want) {
			t.Errorf("%s: status %d, %q, %q", args, n, stdout.String(), stderr.String())
		}
	}
}

func TestVersion(t *testing.T) {
	var stdout bytes.Buffer
	if err := run(context.Background(), []string{"version"}, &stdout, devNull(t)); err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(stdout.String())
	want := []string{"shoal", "", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if len(fields) == len(want) {
		want[1] = fields[1] // a test binary has no fixed version
	}
	if got := strings.Join(fields, " "); got != strings.Join(want, " ") {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestHelpThatCannotBeWritten is an error.
func TestHelpThatCannotBeWritten(t *testing.T) {
	for _, args := range []string{"help", "demo -h", "enqueue -h", "dead -h", "work -h", "version -h"} {
		var stderr bytes.Buffer
		err := run(t.Context(), strings.Fields(args), brokenWriter{syscall.ENOSPC}, devNull(t))
		if n := status(err, &stderr); n != 1 {
			t.Errorf("shoal %s: status %d, %v", args, n, err)
		}
	}
}
