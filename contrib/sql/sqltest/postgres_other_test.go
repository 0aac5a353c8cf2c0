//go:build !linux

package sqltest

import (
	"os"
	"testing"
)

func postgres(t testing.TB) place {
	t.Helper()
	if os.Getenv("SHOAL_POSTGRES") == "required" {
		t.Fatal("the tests start a Postgres on Linux only")
	}
	t.Skip("the tests start a Postgres on Linux only")
	return place{}
}

func ownPostgres(t testing.TB) (place, func()) { return postgres(t), nil }
