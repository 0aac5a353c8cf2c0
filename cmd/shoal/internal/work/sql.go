package work

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of Postgres
	_ "modernc.org/sqlite"             // that of SQLite

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	shoalpgx "github.com/shoal-go/shoal/contrib/sql/pgx"
)

// connections are enough for a source that is pulled, and for what workers say meanwhile.
const connections = 8

// filePoll is between two looks at an SQLite database that seems unchanged. It is watched, and an
// idle process is to sleep.
const filePoll = 2 * time.Second

// flushFor is how long the end waits until others know what there is to do.
const flushFor = 2 * time.Second

// noFile is what a name has that is hardly meant for a file: SQLite would lose the jobs, or a
// setting of another database be the name of a file.
var noFile = regexp.MustCompile(`(?i)^:memory:|^(file|postgres(ql)?|sqlite|mysql):|://|:.*@|(^|[\s;])(host|hostaddr|port|dbname|user|password|service|sslmode)\s*=`)

// Check returns an error if Dir or SQL is hardly what it is meant to be.
func (p Place) Check() error {
	switch {
	case strings.Contains(p.Dir, "://"):
		return fmt.Errorf("-dir %q must be a folder; addresses go with -sql and -nats", withoutSecrets(p.Dir))
	case isPostgres(p.SQL) || filepath.IsAbs(p.SQL) || strings.HasPrefix(p.SQL, ".") || !noFile.MatchString(p.SQL):
		return nil
	}
	return fmt.Errorf("-sql %q must be a postgres:// address or the file of an SQLite database; if this is the name of a file, write ./ before it", withoutSecrets(p.SQL))
}

var (
	postgres = regexp.MustCompile(`(?i)^postgres(ql)?://`)
	// strayAt is an @ in what comes after that which is not the one between user and server: before it
	// there is a slash, or another @. So it is that of a password, of which the rest is taken for a
	// server or a database, and would be printed.
	strayAt = regexp.MustCompile(`^[^@?]*/[^?]*@|^[^@/]*@[^?]*@`)
)

func isPostgres(name string) bool { return postgres.MatchString(name) }

// openSQL opens a queue in a database: Postgres where its name says so, else the SQLite
// database in that file, which is made if it is missing. flag is what named it.
func openSQL(ctx context.Context, p Place, name, flag string) (*Queue, error) {
	driver, dsn, dialect := "sqlite", shoalsql.SQLiteDSN(name), shoalsql.SQLite
	if isPostgres(name) {
		scheme, rest, _ := strings.Cut(name, "://")
		if strayAt.MatchString(rest) {
			return nil, errAddress(flag)
		}
		driver, dsn, dialect = "pgx", strings.ToLower(scheme)+"://"+rest, shoalsql.Postgres
	}
	opts := []shoalsql.Option{shoalsql.WithLease(p.Lease)}
	if p.Existing {
		opts = append(opts, shoalsql.WithExisting())
	}
	if dialect == shoalsql.Postgres {
		listener, err := shoalpgx.Listener(dsn)
		if err != nil {
			// The reason is after the address, which it quotes with what may be a secret.
			why := err.Error()
			why = strings.TrimPrefix(why[max(0, strings.LastIndex(why, "`: ")):], "`: ")
			if strings.HasPrefix(why, "failed to parse as URL") && withoutSecrets(name) != name {
				return nil, errAddress(flag)
			}
			return nil, fmt.Errorf("%s: %s", flag, why)
		}
		opts = append(opts, shoalsql.WithListener(listener))
	} else {
		opts = append(opts, shoalsql.WithPoll(filePoll))
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	db.SetMaxOpenConns(connections)
	once, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q, err := shoalsql.Open(once, db, dialect, p.Queue, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, errors.Join(err, db.Close()))
	}
	_, where, _ := strings.Cut(flag, " ")
	return &Queue{Source: q, Sink: q, Depther: q, Where: where, close: func() error {
		once, cancel := context.WithTimeout(context.Background(), flushFor)
		defer cancel()
		_ = q.Flush(once) // if it fails, the poll of the others finds the jobs
		return db.Close()
	}}, nil
}
