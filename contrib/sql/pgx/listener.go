// Package shoalpgx makes a queue of contrib/sql in Postgres see at once what other processes
// enqueue, by the driver pgx:
//
//	listener, err := shoalpgx.Listener(dsn)
//	…
//	q, err := shoalsql.Open(ctx, db, shoalsql.Postgres, "mails", shoalsql.WithListener(listener))
package shoalpgx

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
)

// Listener returns a [shoalsql.Listener] that connects to Postgres by a connection string of pgx:
// a URL, or words such as "host=db dbname=bank". Its error is that of [pgx.ParseConfig]. It does
// not block, and connects when a Pull waits.
//
// With PgBouncer the string is to name Postgres itself, as LISTEN needs a session of its own.
func Listener(dsn string) (shoalsql.Listener, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("shoalpgx: %w", err)
	}
	return ListenerOf(c), nil
}

// closeFor bounds how long it takes to say good-bye to Postgres.
const closeFor = time.Second

// ListenerOf is like [Listener], with a configuration that [pgx.ParseConfig] has made and that the
// program may have changed. It must not be changed after that. For nil, and for a literal such as
// &pgx.ConnConfig{}, ListenerOf returns nil, which [shoalsql.Open] refuses.
func ListenerOf(c *pgx.ConnConfig) shoalsql.Listener {
	// pgx would panic when it connects, in the middle of a Pull. ParseConfig sets BuildFrontend,
	// without which pgx cannot connect.
	if c == nil || c.BuildFrontend == nil {
		return nil
	}
	return func(ctx context.Context, channel string, notify func()) error {
		conn, err := pgx.ConnectConfig(ctx, c)
		if err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeFor)
			defer cancel()
			_ = conn.Close(ctx)
		}()
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
