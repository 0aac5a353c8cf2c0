package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	pg "github.com/shoal-go/shoal/internal/postgres"
)

// server is the cluster of all tests that do not stop it.
var server = sync.OnceValues(func() (*pg.Cluster, error) {
	c, err := pg.New()
	if err == nil {
		closers = append(closers, func() { c.Close() })
	}
	return c, err
})

// need skips the test when there is no Postgres, or fails it where that is required.
func need(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, pg.ErrNone) && os.Getenv("SHOAL_POSTGRES") != "required":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

var databases sync.Mutex // one is the template of others, which are made one at a time
var made int

// postgres is a new database.
func postgres(t testing.TB) place {
	t.Helper()
	c, err := server()
	need(t, err)
	databases.Lock()
	defer databases.Unlock()
	made++
	name := fmt.Sprint("t", made)
	db := connect(t, "pgx", c.DSN("postgres", "postgres"))
	if _, err := db.ExecContext(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return postgresAt(c, name)
}

func postgresAt(c *pg.Cluster, database string) place {
	return place{
		d:    shoalsql.Postgres,
		dsn:  func(role string) string { return c.DSN(role, database) },
		open: func(t testing.TB) *sql.DB { return connect(t, "pgx", c.DSN("postgres", database)) },
	}
}

// ownPostgres is a database on a server of its own, with what has it crash and begin again.
func ownPostgres(t testing.TB) (p place, restart func()) {
	t.Helper()
	c, err := pg.New()
	need(t, err)
	t.Cleanup(func() { c.Close() })
	return postgresAt(c, "postgres"), func() {
		c.Crash()
		time.Sleep(300 * time.Millisecond)
		if err := c.Start(); err != nil {
			t.Error(err)
		}
	}
}

func TestPostgresIsThereIfRequired(t *testing.T) {
	if s := strings.TrimSpace(os.Getenv("SHOAL_POSTGRES")); s != "" && s != "required" {
		t.Errorf("SHOAL_POSTGRES=%q: want required, or nothing", s)
	}
	_, err := server()
	need(t, err)
}
