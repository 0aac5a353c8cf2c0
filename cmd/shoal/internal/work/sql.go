package work

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of Postgres
	_ "modernc.org/sqlite"             // that of SQLite

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
)

// connections are enough for a source that is pulled, and for what workers say meanwhile.
const connections = 8

// openSQL opens a queue in a database: Postgres where the DSN says so, else the SQLite
// database in that file, which is made if it is missing.
func openSQL(ctx context.Context, p Place) (*Queue, error) {
	driver, dsn, dialect, where := "sqlite", shoalsql.SQLiteDSN(p.SQL), shoalsql.SQLite, p.SQL
	if strings.HasPrefix(p.SQL, "postgres://") || strings.HasPrefix(p.SQL, "postgresql://") {
		driver, dsn, dialect, where = "pgx", p.SQL, shoalsql.Postgres, withoutSecrets(p.SQL)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, fmt.Errorf("-sql %s: %w", where, err)
	}
	db.SetMaxOpenConns(connections)
	once, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q, err := shoalsql.Open(once, db, dialect, p.Queue, shoalsql.WithLease(p.Lease))
	if err != nil {
		return nil, fmt.Errorf("-sql %s: %w", where, errors.Join(err, db.Close()))
	}
	return &Queue{Source: q, Sink: q, Where: where, close: db.Close}, nil
}
