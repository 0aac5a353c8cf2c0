// Package pgtest has what tests need that use a server of package postgres.
package pgtest

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/shoal-go/shoal/internal/postgres"
)

// Need skips the test if err says that there is no Postgres, or fails it if SHOAL_POSTGRES is
// "required". It fails it for any other error.
func Need(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, postgres.ErrNone) && os.Getenv("SHOAL_POSTGRES") != "required":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

// Start starts a server that ends with the test. It skips or fails the test like [Need].
func Start(t testing.TB, settings ...string) *postgres.Cluster {
	t.Helper()
	c, err := postgres.New(settings...)
	Need(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

var closeShared func() error

// Shared is a server that all tests of a package share. It does not sync, and ends with [Main].
var Shared = sync.OnceValues(func() (*postgres.Cluster, error) {
	c, err := postgres.New("fsync=off")
	if err == nil {
		closeShared = c.Close
	}
	return c, err
})

// Main is the TestMain of a package that uses [Shared].
func Main(m *testing.M) {
	code := m.Run()
	if closeShared != nil {
		closeShared()
	}
	os.Exit(code)
}
