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
var noFile = regexp.MustCompile(`^:memory:|^(file|postgres(ql)?|sqlite|mysql):|://|(^|\s)(host|hostaddr|port|dbname|user|password|service|sslmode)\s*=`)

// CheckSQL returns an error if name names no database.
func CheckSQL(name string) error {
	if isPostgres(name) || filepath.IsAbs(name) || strings.HasPrefix(name, ".") || !noFile.MatchString(name) {
		return nil
	}
	return fmt.Errorf("-sql %q must be a postgres:// address or the file of an SQLite database; if this is the name of a file, write ./ before it", withoutSecrets(name))
}

func isPostgres(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// openSQL opens a queue in a database: Postgres where its name says so, else the SQLite
// database in that file, which is made if it is missing. flag is what named it.
func openSQL(ctx context.Context, p Place, name, flag string) (*Queue, error) {
	driver, dsn, dialect := "sqlite", shoalsql.SQLiteDSN(name), shoalsql.SQLite
	if isPostgres(name) {
		driver, dsn, dialect = "pgx", name, shoalsql.Postgres
	}
	opts := []shoalsql.Option{shoalsql.WithLease(p.Lease)}
	if p.Existing {
		opts = append(opts, shoalsql.WithExisting())
	}
	if dialect == shoalsql.Postgres {
		listener, err := shoalpgx.Listener(dsn)
		if err != nil {
			return nil, badAddress(flag, withoutSecrets(name) != name, err)
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
