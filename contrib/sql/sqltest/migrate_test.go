package sqltest

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	"github.com/shoal-go/shoal/jobs"
)

// version1 are the tables as the package made them before it noted their version.
var version1 = map[shoalsql.Dialect]string{
	shoalsql.Postgres: `CREATE TABLE shoal_jobs (
	seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL, id text NOT NULL, data bytea NOT NULL, header text,
	attempt integer NOT NULL DEFAULT 0, leased boolean NOT NULL DEFAULT false, ready timestamptz NOT NULL, UNIQUE (queue, id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX shoal_jobs_ready ON shoal_jobs (queue, ready, seq);
CREATE TABLE shoal_dead (
	seq bigint PRIMARY KEY, queue text NOT NULL, id text NOT NULL, data bytea NOT NULL, header text,
	attempt integer NOT NULL, reason text NOT NULL, at timestamptz NOT NULL, UNIQUE (queue, id)
);
CREATE INDEX shoal_dead_at ON shoal_dead (queue, at, seq);
CREATE TABLE shoal_done (
	queue text NOT NULL, id text NOT NULL, seq bigint NOT NULL, attempt integer NOT NULL, until timestamptz NOT NULL, PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX shoal_done_until ON shoal_done (until);
INSERT INTO shoal_jobs (queue, id, data, ready) VALUES ('q', 'old', 'of before', now());
INSERT INTO shoal_dead (seq, queue, id, data, attempt, reason, at) VALUES (1000, 'q', 'dead', 'of before', 3, 'bad', now());
INSERT INTO shoal_done VALUES ('q', 'done', 1001, 1, now() + interval '1 hour');
`,
	shoalsql.SQLite: `CREATE TABLE shoal_jobs (
	seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, header TEXT,
	attempt INTEGER NOT NULL DEFAULT 0, leased INTEGER NOT NULL DEFAULT 0, ready INTEGER NOT NULL, UNIQUE (queue, id)
);
CREATE INDEX shoal_jobs_ready ON shoal_jobs (queue, ready, seq);
CREATE TABLE shoal_dead (
	seq INTEGER PRIMARY KEY, queue TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, header TEXT,
	attempt INTEGER NOT NULL, reason TEXT NOT NULL, at INTEGER NOT NULL, UNIQUE (queue, id)
);
CREATE INDEX shoal_dead_at ON shoal_dead (queue, at, seq);
CREATE TABLE shoal_done (
	queue TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL, attempt INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (queue, id)
);
CREATE INDEX shoal_done_until ON shoal_done (until);
INSERT INTO shoal_jobs (queue, id, data, ready) VALUES ('q', 'old', CAST('of before' AS BLOB), 0);
INSERT INTO shoal_dead (seq, queue, id, data, attempt, reason, at) VALUES (1000, 'q', 'dead', CAST('of before' AS BLOB), 3, 'bad', 0);
INSERT INTO shoal_done VALUES ('q', 'done', 1001, 1, 1 << 50);
`,
}

func runAll(t testing.TB, db *sql.DB, statements string) {
	t.Helper()
	for s := range strings.SplitAfterSeq(statements, ";\n") {
		if s != "" {
			run(t, db, s)
		}
	}
}

// TestOldTablesAreMigrated: by one of many that open them at the same time, while an old
// program holds a job; and everything in them is still there.
func TestOldTablesAreMigrated(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 30*time.Second)
		db := p.open(t)
		runAll(t, db, version1[p.d])
		if p.d == shoalsql.Postgres {
			tx, err := db.BeginTx(ctx, nil)
			must(t, err)
			if _, err := tx.Exec(`UPDATE shoal_jobs SET attempt = attempt WHERE id = 'none'`); err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
		}
		var wg sync.WaitGroup
		for range 8 {
			db := p.open(t)
			wg.Go(func() {
				if _, err := shoalsql.Open(ctx, db, p.d, "q"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if v := count(t, db, `SELECT version FROM shoal_schema`); v != shoalsql.SchemaVersion {
			t.Fatalf("version %d", v)
		}
		q := open(t, db, p.d, "q", shoalsql.WithExisting())
		must(t, q.Enqueue(ctx, jobs.Message{ID: "done"}, jobs.Message{ID: "dead"}, jobs.Message{ID: "old"}))
		d := pull(t, q, 10)
		if len(d) != 1 || d[0].ID() != "old" || string(d[0].Data()) != "of before" {
			t.Fatalf("%d jobs", len(d))
		}
		must(t, d[0].Ack(ctx))
		dead, err := q.DeadLetters(ctx, jobs.DeadFilter{})
		if err != nil || len(dead) != 1 || dead[0].ID != "dead" || dead[0].Reason != "bad" || dead[0].Attempt != 3 {
			t.Errorf("%+v, %v", dead, err)
		}
	})
}

func TestTheVersionOfTheTables(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 30*time.Second)
		db := p.open(t)
		refused := func(want string, opts ...shoalsql.Option) {
			t.Helper()
			_, err := shoalsql.Open(ctx, db, p.d, "q", opts...)
			if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), want) {
				t.Errorf("want an error with %q, have %v", want, err)
			}
		}
		all := shoalsql.Migrations(p.d)
		if len(all) != shoalsql.SchemaVersion || strings.Join(all, "") != shoalsql.Schema(p.d) {
			t.Errorf("%d migrations, want %d", len(all), shoalsql.SchemaVersion)
		}
		// By hand, from version to version.
		refused("no table shoal_jobs", shoalsql.WithExisting())
		for v, statements := range all {
			runAll(t, db, statements)
			if v+1 < shoalsql.SchemaVersion {
				refused(fmt.Sprintf("have version %d: want %d", v+1, shoalsql.SchemaVersion), shoalsql.WithExisting())
			}
		}
		open(t, db, p.d, "q", shoalsql.WithExisting())

		// A newer program has been here.
		run(t, db, `UPDATE shoal_schema SET version = version + 7`)
		newer := fmt.Sprintf("have version %d, and this program knows versions up to %d", shoalsql.SchemaVersion+7, shoalsql.SchemaVersion)
		refused(newer)
		refused(newer, shoalsql.WithExisting())
		runAll(t, db, shoalsql.Schema(p.d)) // which is no way back
		run(t, db, `DROP TABLE shoal_done`)
		refused(newer)

		run(t, db, `UPDATE shoal_schema SET version = 2`)
		open(t, db, p.d, "q") // and makes what is missing
		run(t, db, `DROP TABLE shoal_schema`)
		open(t, db, p.d, "q")
		if v := count(t, db, `SELECT version FROM shoal_schema`); v != shoalsql.SchemaVersion {
			t.Errorf("version %d", v)
		}
	})
}

// ExampleMigrations shows what to run by hand, where programs may not change tables.
func ExampleMigrations() {
	const version = 1 // SELECT version FROM shoal_schema
	for v, statements := range shoalsql.Migrations(shoalsql.Postgres)[version:] {
		fmt.Printf("-- from version %d to %d\n", version+v, version+v+1)
		for s := range strings.SplitAfterSeq(statements, ";\n") {
			first, _, _ := strings.Cut(s, "\n")
			fmt.Println(first)
		}
	}
	// Output:
	// -- from version 1 to 2
	// CREATE TABLE IF NOT EXISTS shoal_schema (
	// INSERT INTO shoal_schema (one, version) VALUES (1, 2)
}
