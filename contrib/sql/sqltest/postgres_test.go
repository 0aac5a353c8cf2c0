package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	pg "github.com/shoal-go/shoal/internal/postgres"
	"github.com/shoal-go/shoal/internal/postgres/pgtest"
)

// server is the cluster of all tests that do not stop it.
var server = sync.OnceValues(func() (*pg.Cluster, error) {
	c, err := pg.New()
	if err == nil {
		closers = append(closers, func() { c.Close() })
	}
	return c, err
})

var databases sync.Mutex // one is the template of others, which are made one at a time
var made int

// postgres is a new database.
func postgres(t testing.TB) place {
	t.Helper()
	c, err := server()
	pgtest.Need(t, err)
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
	c := pgtest.Start(t)
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
	pgtest.Need(t, err)
}
