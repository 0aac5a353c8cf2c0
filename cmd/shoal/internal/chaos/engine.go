//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os/exec"
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
	// restart makes it fail, under load, and begin again.
	restart(ctx context.Context, f *field) error
	// away makes it unreachable for a while.
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
	case "nats":
		return newNATS(dir)
	}
	return nil, fmt.Errorf("-engine %q: want sqlite, postgres or nats", name)
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

// natsServer is a NATS server in a process of its own.
type natsServer struct {
	binary, dir, addr string
	c                 *exec.Cmd
}

// newNATS builds a server, in the module that has one, and starts it.
func newNATS(dir string) (*natsServer, error) {
	s := &natsServer{binary: filepath.Join(dir, "nats-server"), dir: filepath.Join(dir, "nats")}
	build := exec.Command("go", "build", "-o", s.binary, "github.com/nats-io/nats-server/v2")
	build.Dir = filepath.Join("..", "..", "contrib", "nats", "natstest")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building nats-server: %w: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.addr = l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	return s, s.start()
}

func (s *natsServer) start() error {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	s.c = exec.Command(s.binary, "-a", host, "-p", port, "-js", "-sd", s.dir)
	if err := s.c.Start(); err != nil {
		return err
	}
	for range 200 {
		if c, err := net.Dial("tcp", s.addr); err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.Join(fmt.Errorf("nats-server does not listen at %s", s.addr), s.close())
}

func (s *natsServer) place() []string { return []string{"-nats", "nats://" + s.addr} }

func (s *natsServer) close() error {
	_ = s.c.Process.Kill()
	_ = s.c.Wait()
	return nil
}

func (s *natsServer) restart(ctx context.Context, f *field) error { return s.away(ctx, f, 0) }

func (s *natsServer) away(ctx context.Context, _ *field, d time.Duration) error {
	if err := s.close(); err != nil {
		return err
	}
	sleep(ctx, d)
	return s.start()
}

// sqlite is a folder.
type sqlite struct{ dir string }

func (s sqlite) place() []string                     { return []string{"-dir", s.dir} }
func (sqlite) close() error                          { return nil }
func (sqlite) restart(context.Context, *field) error { return nil }

// away locks the file, as another process would.
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
