package work

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of Postgres
	_ "modernc.org/sqlite"             // that of SQLite

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
)

// connections are enough for a source that is pulled, and for what workers say meanwhile.
const connections = 8

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
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	db.SetMaxOpenConns(connections)
	once, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	opts := []shoalsql.Option{shoalsql.WithLease(p.Lease)}
	if p.Existing {
		opts = append(opts, shoalsql.WithExisting())
	}
	if dialect == shoalsql.Postgres {
		opts = append(opts, shoalsql.WithListener(listener(dsn)))
	}
	q, err := shoalsql.Open(once, db, dialect, p.Queue, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, errors.Join(err, db.Close()))
	}
	_, where, _ := strings.Cut(flag, " ")
	return &Queue{Source: q, Sink: q, Where: where, close: db.Close}, nil
}

// listener has Postgres tell of the jobs of other processes, on a connection of its own. Where
// it cannot, the queue looks for them now and then.
func listener(dsn string) shoalsql.Listener {
	return func(ctx context.Context, channel string, notify func()) error {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
		for {
			notify()
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return err
			}
		}
	}
}
