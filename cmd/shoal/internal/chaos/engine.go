//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
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
	case "sqlite":
		return sqlite{filepath.Join(dir, "queue")}, nil
	case "postgres":
		c, err := postgres.New()
		if err != nil {
			return nil, err
		}
		return server{c}, nil
	}
	return nil, fmt.Errorf("-engine %q: want sqlite or postgres", name)
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

// sqlite is a folder: there is no process that could fail but those that work.
type sqlite struct{ dir string }

func (s sqlite) place() []string                     { return []string{"-dir", s.dir} }
func (sqlite) close() error                          { return nil }
func (sqlite) restart(context.Context, *field) error { return nil }

// away has somebody else lock the file.
func (s sqlite) away(ctx context.Context, _ *field, d time.Duration) error {
	db, err := sql.Open("sqlite", shoalsql.SQLiteDSN(filepath.Join(s.dir, "jobs.db"))+"&_pragma=busy_timeout(30000)")
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
