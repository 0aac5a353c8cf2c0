//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver of SQLite

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	"github.com/shoal-go/shoal/internal/postgres"
)

// An engine is where the queue is.
type engine interface {
	// place is what tells the commands of it.
	place() []string
	// restart has it fail, under load, and begin again.
	restart(ctx context.Context, f *field) error
	// away has nobody reach it for a while.
	away(ctx context.Context, f *field, d time.Duration) error
	close() error
}

func newEngine(name, dir string) (engine, error) {
	switch name {
	case "embedded":
		return embedded{filepath.Join(dir, "queue")}, nil
	case "sqlite":
		return sqlite{filepath.Join(dir, "jobs.db")}, nil
	case "postgres":
		c, err := postgres.New()
		if err != nil {
			return nil, err
		}
		return server{c}, nil
	}
	return nil, fmt.Errorf("-engine %q: want embedded, postgres or sqlite", name)
}

// embedded is the embedded engine in one of the processes that work.
type embedded struct{ dir string }

func (e embedded) place() []string { return []string{"-dir", e.dir} }
func (embedded) close() error      { return nil }

// holder is the process that has the server, when one of those at work has.
func (e embedded) holder(ctx context.Context, f *field) (int, error) {
	for {
		b, err := os.ReadFile(filepath.Join(e.dir, "lock"))
		if err != nil {
			return 0, err
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		for i, p := range f.procs {
			if p.cmd.Process.Pid == pid {
				return i, nil
			}
		}
		if !sleep(ctx, 20*time.Millisecond) { // it is in an enqueue, which ends
			return 0, errOutOfTime
		}
	}
}

func (e embedded) restart(ctx context.Context, f *field) error {
	i, err := e.holder(ctx, f)
	if err != nil {
		return err
	}
	return f.replace(i)
}

// away has the process that has the server stand still: it keeps the folder, so nobody
// can take over.
func (e embedded) away(ctx context.Context, f *field, d time.Duration) error {
	i, err := e.holder(ctx, f)
	if err != nil {
		return err
	}
	p := f.procs[i].cmd.Process
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	sleep(ctx, d)
	return p.Signal(syscall.SIGCONT)
}

// server is a Postgres.
type server struct{ c *postgres.Cluster }

func (s server) place() []string { return []string{"-sql", s.c.URL("postgres", "postgres")} }
func (s server) close() error    { return s.c.Close() }

func (s server) restart(ctx context.Context, f *field) error { return s.away(ctx, f, 0) }

func (s server) away(ctx context.Context, _ *field, d time.Duration) error {
	s.c.Crash()
	sleep(ctx, d)
	return s.c.Start()
}

// sqlite is a file: there is no process that could fail but those that work.
type sqlite struct{ file string }

func (s sqlite) place() []string                     { return []string{"-sql", s.file} }
func (sqlite) close() error                          { return nil }
func (sqlite) restart(context.Context, *field) error { return nil }

// away has somebody else lock the file.
func (s sqlite) away(ctx context.Context, _ *field, d time.Duration) error {
	db, err := sql.Open("sqlite", shoalsql.SQLiteDSN(s.file)+"&_pragma=busy_timeout(30000)")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	sleep(ctx, d)
	return tx.Rollback()
}
