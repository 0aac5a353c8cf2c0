// Package work is the commands enqueue and work: jobs by hand.
package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"

	shoalnats "github.com/shoal-go/shoal/contrib/nats"
	"github.com/shoal-go/shoal/jobs"
)

// A Place says where a queue is. One of Dir, NATS and SQL is used: SQL if it is given,
// else NATS, else Dir.
type Place struct {
	Dir   string // a folder, with the SQLite database of the queue
	NATS  string // the address of a server
	SQL   string // postgres://… or the file of an SQLite database
	Queue string
	Lease time.Duration
	Log   *slog.Logger

	Existing bool // make no queue
}

// A Queue is an open queue.
type Queue struct {
	jobs.Source
	jobs.Sink
	jobs.Depther
	Where string // for people
	close func() error
}

// Close lets go of the queue.
func (q *Queue) Close() error { return q.close() }

const (
	patience  = 10 * time.Second
	reconnect = 50 * time.Millisecond
)

// Open opens the queue at p.
func Open(ctx context.Context, p Place) (*Queue, error) {
	switch {
	case p.SQL != "":
		if _, err := os.Stat(p.SQL); p.Existing && !isPostgres(p.SQL) && err != nil {
			return nil, fmt.Errorf("-sql %s: %w", p.SQL, err)
		}
		where := p.SQL
		if isPostgres(where) {
			where = withoutSecrets(where)
		}
		return openSQL(ctx, p, p.SQL, "-sql "+where)
	case p.NATS != "":
		return openNATS(ctx, p)
	}
	file, err := inDir(p.Dir, p.Existing)
	if err != nil {
		return nil, err
	}
	return openSQL(ctx, p, file, "-dir "+p.Dir)
}

// fileName is that of the database in a folder.
const fileName = "jobs.db"

// inDir is the database in a folder, which it makes if it is missing, unless it is to exist.
func inDir(dir string, existing bool) (file string, err error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return "", fmt.Errorf("-dir %s names a file; for an SQLite database use -sql %s", dir, dir)
	}
	file = filepath.Join(dir, fileName)
	if _, err := os.Stat(file); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if _, err := os.Stat(filepath.Join(dir, "jetstream")); err == nil {
		return "", fmt.Errorf("-dir %s has the jobs of a NATS server, which this command does not start any more; run nats-server -js -sd %s and use -nats instead of -dir, or name another folder", dir, dir)
	}
	if existing {
		return "", fmt.Errorf("-dir %s has no queue", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("-dir %s: %w", dir, err)
	}
	return file, nil
}

func openNATS(ctx context.Context, p Place) (*Queue, error) {
	where := withoutSecrets(p.NATS)
	nc, err := nats.Connect(p.NATS, nats.MaxReconnects(-1), nats.ReconnectWait(reconnect), nats.ReconnectBufSize(-1))
	if err != nil {
		if bad := (*url.Error)(nil); errors.As(err, &bad) && where != p.NATS {
			return nil, errAddress("-nats " + where)
		}
		return nil, fmt.Errorf("-nats %s: %w", where, err)
	}
	once, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	opts := []shoalnats.Option{shoalnats.WithLease(p.Lease)}
	if p.Existing {
		opts = append(opts, shoalnats.WithExisting())
	}
	q, err := shoalnats.Open(once, nc, p.Queue, opts...)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("-nats %s: %w", where, err)
	}
	return &Queue{Source: q, Sink: q, Depther: q, Where: where, close: func() error { nc.Close(); return nil }}, nil
}

var (
	// aPassword is one among the settings of an address, and all that is after it: where it ends
	// depends on who reads it.
	aPassword = regexp.MustCompile(`(?is)((?:^|[?&,;\s])\w*(?:pass|pwd|token|secret)\w*\s*=).*`)
	// aUser is the user of a server, the password, and all until the last @, as a password may have
	// what parts servers. Without a colon the user may be a token.
	aUser = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9+.-]*://)?([\w.-]+:)?.*@`)
)

// withoutSecrets is an address for people. It blanks what may be a secret, also in an address that
// nothing can read: so it asks for little, and rather blanks too much.
func withoutSecrets(address string) string {
	return aUser.ReplaceAllString(aPassword.ReplaceAllString(address, "${1}xxxxx"), "${1}${2}xxxxx@")
}

// errAddress is the error of an address that cannot be read, for which a reason would quote secrets.
func errAddress(flag string) error {
	return fmt.Errorf("%s is no valid address; in a password write what is no letter or digit as %%XX, as %%40 for @", flag)
}
