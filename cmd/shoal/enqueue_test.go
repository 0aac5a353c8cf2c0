package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoal-go/shoal/cmd/shoal/internal/work"
)

// TestAWrongCommandLineIsStatus2, and makes no folder.
func TestAWrongCommandLineIsStatus2(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("SHOAL_TOKEN", "short")
	long := strings.Repeat("x", 1025)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"-sql is empty", []string{"enqueue", "-sql", ""}},
		{"-nats is empty", []string{"enqueue", "-nats", ""}},
		{"-dir is empty", []string{"enqueue", "-dir", ""}},
		{"-sql is empty", []string{"work", "-empty", "1ms", "-nats", "nats://127.0.0.1:1", "-sql", "", "cat"}},
		{"-sql is empty", []string{"dead", "list", "-sql", ""}},
		{`-queue "a b"`, []string{"enqueue", "-dir", "q", "-queue", "a b"}},
		{`-queue ""`, []string{"enqueue", "-dir", "q", "-queue", ""}},
		{`-queue "a/b"`, []string{"work", "-dir", "q", "-empty", "1ms", "-queue", "a/b", "cat"}},
		{`-queue "a/b"`, []string{"dead", "list", "-dir", "q", "-queue", "a/b"}},
		{`-type "\xff"`, []string{"enqueue", "-dir", "q", "-type", "\xff"}},
		{`-type "a\x00b"`, []string{"enqueue", "-dir", "q", "-type", "a\x00b"}},
		{"-type has 1025 bytes: want at most 1024", []string{"enqueue", "-dir", "q", "-type", long}},
		{`-sql ":memory:" must be`, []string{"enqueue", "-sql", ":memory:"}},
		{`-sql "file:a.db" must be`, []string{"work", "-sql", "file:a.db", "-empty", "1ms", "cat"}},
		{`-sql "mysql://a/b" must be`, []string{"dead", "list", "-sql", "mysql://a/b"}},
		{`-sql "host=localhost dbname=x password=xxxxx" must be`, []string{"enqueue", "-sql", "host=localhost dbname=x password=secret"}},
		{`-sql "port=1 user = x" must be`, []string{"enqueue", "-sql", "port=1 user = x"}},
		{`-sql "hostaddr=127.0.0.1" must be`, []string{"enqueue", "-sql", "hostaddr=127.0.0.1"}},
		{`-sql "port=5432" must be`, []string{"enqueue", "-sql", "port=5432"}},
		{`-sql "a password=xxxxx" must be`, []string{"enqueue", "-sql", "a password=secret"}},
		{`-sql "service=x" must be`, []string{"enqueue", "-sql", "service=x"}},
		{`-sql "sslmode = disable" must be`, []string{"enqueue", "-sql", "sslmode = disable"}},
		{`-sql "postgres:x" must be`, []string{"enqueue", "-sql", "postgres:x"}},
		{`-sql "postgresql:x" must be`, []string{"enqueue", "-sql", "postgresql:x"}},
		{`-sql "sqlite:a.db" must be`, []string{"enqueue", "-sql", "sqlite:a.db"}},
		{`-sql "mysql:x" must be`, []string{"enqueue", "-sql", "mysql:x"}},
		{`-sql "MySQL:x" must be`, []string{"enqueue", "-sql", "MySQL:x"}},
		{`-sql "u:xxxxx@tcp(127.0.0.1:3306)/db" must be`, []string{"enqueue", "-sql", "u:secret@tcp(127.0.0.1:3306)/db"}},
		{`-sql "u:xxxxx@host:5432/db" must be`, []string{"enqueue", "-sql", "u:secret@host:5432/db"}},
		{`-sql "Server=a;Password=xxxxx" must be`, []string{"enqueue", "-sql", "Server=a;Password=secret"}},
		{`-dir "postgres://u:xxxxx@h/db" must be a folder`, []string{"enqueue", "-dir", "postgres://u:secret@h/db"}},
		{`-dir "nats://xxxxx@h" must be a folder`, []string{"dead", "list", "-dir", "nats://token@h"}},
		{"there is no type before the =", []string{"work", "-dir", "q", "-empty", "1ms", "-time-limit", "=300ms", "cat"}},
		{"-max-leases -1", []string{"work", "-dir", "q", "-max-leases", "-1", "cat"}},
		{"-listen is empty", []string{"work", "-dir", "q", "-empty", "1ms", "-listen", "", "cat"}},
		{"$SHOAL_TOKEN has 5 bytes: want at least 16", []string{"work", "-dir", "q", "-empty", "1ms", "-listen", ":0", "cat"}},
		{"-listen nonsense", []string{"work", "-dir", "q", "-empty", "1ms", "-listen", "nonsense", "cat"}},
		{"-listen :65536", []string{"work", "-dir", "q", "-empty", "1ms", "-listen", ":65536", "cat"}},
	} {
		var said bytes.Buffer
		var err error
		switch c.args[0] {
		case "enqueue":
			err = enqueueCommand(t.Context(), c.args[1:], strings.NewReader("a\n"), &said, &said)
		case "work":
			err = workCommand(t.Context(), c.args[1:], &said, &said)
		default:
			err = deadCommand(t.Context(), c.args[1:], &said, &said)
		}
		if n := status(err, &said); n != 2 || !strings.Contains(said.String(), c.want) {
			t.Errorf("shoal %.99q: status %d, %s, want 2 and %s", c.args, n, said.String(), c.want)
		}
		if made, _ := filepath.Glob("*"); len(made) > 0 {
			t.Errorf("shoal %.99q has made %q", c.args, made)
			for _, name := range made {
				os.RemoveAll(name)
			}
		}
	}
	for _, file := range []string{"./file:a.db", "a b=c.db", "sub/host=a", "./sqlite:a.db", "./a:b@c", "a@b", "postgres.db"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		enqueue(t, "a\n", "-sql", file)
	}
	enqueue(t, "a\n", "-dir", "q", "-type", long[:1024], "-queue", strings.Repeat("q", 100))
}

// TestOnceSkips a line whose job waits, is a dead letter, or ended lately: as the help says.
// What is counted is lines.
func TestOnceSkips(t *testing.T) {
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	once := append(place, "-once")
	if said := enqueue(t, "1ns\n1ns\nno time\n", once...); !strings.HasPrefix(said, "enqueued or skipped 3 lines in ") {
		t.Errorf("enqueue -once said %q", said)
	}
	for _, want := range []string{": 1 done, 0 failed, to be tried again, 0 given back, 1 dead letters", ": 0 done, 0 failed, to be tried again, 0 given back, 0 dead letters"} {
		if _, said := doWork(t, append(place, "-do", "sleep")...); !strings.Contains(said, want) {
			t.Errorf("work said %s, want %s", said, want)
		}
		enqueue(t, "1ns\nno time\n", once...)
	}
	if said := enqueue(t, "a\n", place...); !strings.HasPrefix(said, "enqueued 1 lines in ") {
		t.Errorf("enqueue said %q", said)
	}
	if help := helpOf(t, "enqueue"); !strings.Contains(help, "waits, runs, is a dead letter, or was done in the last two minutes") || strings.Contains(help, "how many jobs") {
		t.Errorf("enqueue -h: %s", help)
	}
}

// helpOf is the help of a command, in one line.
func helpOf(t *testing.T, command string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), []string{command, "-h"}, &out, devNull(t)); status(err, &out) != 0 {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

func TestTheHelpTellsAllOf(t *testing.T) {
	for command, wants := range map[string][]string{
		"enqueue": {"whose job was enqueued with -once, whatever its type, and waits, runs, is a dead letter", "128+N signal N came before all lines were enqueued", "a carriage return before it"},
		"dead":    {"the last 50, unless -n, -all or an ID is given"},
		"work": {"Its standard input is the job and a line feed", "SIGTERM to that group, and SIGKILL 0.8s later", "tried again after 5s, any number of times unless -max-leases says otherwise",
			"as /dev/tty, is stopped", "killed, 0.8s later if they hold its output", "reads from its beginning each time", "or the result of some runs is not known and jobs are left", "nor while it does not answer", "keeps its worker for up to 1s more", "only one that fails makes the job a dead letter: see -max-leases", "The summary at the end says how many jobs are left", "If the standard output is closed, as by >&-, what commands write there is lost"},
	} {
		help := helpOf(t, command)
		for _, want := range wants {
			if !strings.Contains(help, want) {
				t.Errorf("the help of %s has no %q", command, want)
			}
		}
	}
}

// TestAnInterruptBeforeTheQueueIsOpen has the status of the signal.
func TestAnInterruptBeforeTheQueueIsOpen(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&work.Interrupted{Signal: os.Interrupt})
	var said bytes.Buffer
	err := enqueueCommand(ctx, []string{"-dir", t.TempDir()}, strings.NewReader("a\n"), &said, &said)
	if n := status(err, &said); n != 130 || errors.As(err, &errUsage{}) {
		t.Errorf("status %d, %s, want 130", n, said.String())
	}
}
