package shoalsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// A Dialect is a kind of database.
type Dialect int

// The dialects. The zero value is none.
const (
	Postgres Dialect = iota + 1
	SQLite
)

// String returns the dialect's name.
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "Postgres"
	case SQLite:
		return "SQLite"
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

// unit is what the dialect counts time in.
func (d Dialect) unit() time.Duration {
	if d == SQLite {
		return time.Millisecond
	}
	return time.Microsecond
}

// units is at least t in the units of the dialect.
func (d Dialect) units(t time.Duration) int64 {
	u := d.unit()
	if t > math.MaxInt64-u {
		t = math.MaxInt64 - u
	}
	return int64((t + u - 1) / u)
}

// delay is for how long a job is not to be leased. The clock of the database is cut, or
// rounded, to a unit, so it is one more.
func (d Dialect) delay(t time.Duration) int64 {
	if t <= 0 {
		return 0
	}
	return d.units(t) + 1
}

// sqlState is the SQLSTATE of err, of a driver that has it.
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

func mentions(err error, texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(err.Error(), t) {
			return true
		}
	}
	return false
}

// busy reports whether err comes of what others do in the database at the same time.
func (d Dialect) busy(err error) bool {
	if d == SQLite {
		return mentions(err, "SQLITE_BUSY", "SQLITE_LOCKED", "database is locked", "database table is locked")
	}
	s := sqlState(err)
	return s == "40001" || s == "40P01" // a serialization failure; a deadlock
}

// missing reports whether err says that there is no such table.
func missing(err error) bool {
	return sqlState(err) == "42P01" || mentions(err, "no such table")
}

// hopeless reports whether err is one that calling again does not help against.
func hopeless(err error) bool {
	switch s := sqlState(err); {
	case s == "42P01", s == "42703": // no such table, column
		return true
	case s == "42501": // permission denied
		return true
	case strings.HasPrefix(s, "28"): // authentication
		return true
	case s == "3D000", s == "3F000": // no such database, schema
		return true
	}
	return mentions(err, "no such table", "no such column", "readonly database", "file is not a database", "sql: database is closed")
}

// tables are those of a schema, with their columns.
var tables = []struct{ name, columns string }{
	{"shoal_jobs", "seq, queue, id, data, header, attempt, leased, ready"},
	{"shoal_dead", "seq, queue, id, data, header, attempt, reason, at"},
	{"shoal_done", "queue, id, seq, attempt, until"},
}

// SchemaVersion is the version of the tables that this version of the package uses. The
// table shoal_schema says which version the tables of a database have. Version 1 was
// without that table.
const SchemaVersion = 2

// Migrations returns the statements that bring the tables from each version to the next:
// Migrations(d)[v] brings them from version v to v+1, and version 0 means that there are no
// tables. [Open] runs those that are missing. A program that opens the queue [WithExisting]
// leaves that to whoever runs them by hand, each element in one transaction. Each statement
// ends with ";\n".
func Migrations(d Dialect) []string {
	switch d {
	case Postgres:
		return []string{schemaPostgres, schemaVersion}
	case SQLite:
		return []string{schemaSQLite, schemaVersion}
	}
	return nil
}

// Schema returns all [Migrations]: the statements that create the tables. Each ends with
// ";\n", and does nothing where it has been run before.
//
// The table shoal_jobs has the jobs; a job may be leased when the time in its column ready,
// which is the end of its delay or of its lease, has passed. The table shoal_dead has the
// dead letters. The table shoal_done has, for a while, the IDs of jobs that were
// acknowledged. The table shoal_schema has the version of the tables. Only the queue may change
// the rows; a program may delete dead letters, and jobs that are not to run.
func Schema(d Dialect) string { return strings.Join(Migrations(d), "") }

const schemaVersion = `CREATE TABLE IF NOT EXISTS shoal_schema (
	one integer PRIMARY KEY CHECK (one = 1),
	version integer NOT NULL
);
INSERT INTO shoal_schema (one, version) VALUES (1, 2)
ON CONFLICT (one) DO UPDATE SET version = excluded.version WHERE shoal_schema.version < excluded.version;
`

const schemaPostgres = `CREATE TABLE IF NOT EXISTS shoal_jobs (
	seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	queue text NOT NULL,
	id text NOT NULL,
	data bytea NOT NULL,
	header text,
	attempt integer NOT NULL DEFAULT 0,
	leased boolean NOT NULL DEFAULT false,
	ready timestamptz NOT NULL,
	UNIQUE (queue, id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS shoal_jobs_ready ON shoal_jobs (queue, ready, seq);
CREATE TABLE IF NOT EXISTS shoal_dead (
	seq bigint PRIMARY KEY,
	queue text NOT NULL,
	id text NOT NULL,
	data bytea NOT NULL,
	header text,
	attempt integer NOT NULL,
	reason text NOT NULL,
	at timestamptz NOT NULL,
	UNIQUE (queue, id)
);
CREATE INDEX IF NOT EXISTS shoal_dead_at ON shoal_dead (queue, at, seq);
CREATE TABLE IF NOT EXISTS shoal_done (
	queue text NOT NULL,
	id text NOT NULL,
	seq bigint NOT NULL,
	attempt integer NOT NULL,
	until timestamptz NOT NULL,
	PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS shoal_done_until ON shoal_done (until);
`

// Times are milliseconds since 1970.
const schemaSQLite = `CREATE TABLE IF NOT EXISTS shoal_jobs (
	seq INTEGER PRIMARY KEY AUTOINCREMENT,
	queue TEXT NOT NULL,
	id TEXT NOT NULL,
	data BLOB NOT NULL,
	header TEXT,
	attempt INTEGER NOT NULL DEFAULT 0,
	leased INTEGER NOT NULL DEFAULT 0,
	ready INTEGER NOT NULL,
	UNIQUE (queue, id)
);
CREATE INDEX IF NOT EXISTS shoal_jobs_ready ON shoal_jobs (queue, ready, seq);
CREATE TABLE IF NOT EXISTS shoal_dead (
	seq INTEGER PRIMARY KEY,
	queue TEXT NOT NULL,
	id TEXT NOT NULL,
	data BLOB NOT NULL,
	header TEXT,
	attempt INTEGER NOT NULL,
	reason TEXT NOT NULL,
	at INTEGER NOT NULL,
	UNIQUE (queue, id)
);
CREATE INDEX IF NOT EXISTS shoal_dead_at ON shoal_dead (queue, at, seq);
CREATE TABLE IF NOT EXISTS shoal_done (
	queue TEXT NOT NULL,
	id TEXT NOT NULL,
	seq INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	until INTEGER NOT NULL,
	PRIMARY KEY (queue, id)
);
CREATE INDEX IF NOT EXISTS shoal_done_until ON shoal_done (until);
`

// statements are the texts of a dialect.
type statements struct {
	d                                                             Dialect
	next, pull, ack, remove, nak, term, extend, free, fate, sweep string
	ackMany, depth, now, release, newRow, lease                   string
}

var (
	ofPostgres = newStatements(Postgres)
	ofSQLite   = newStatements(SQLite)
)

func statementsOf(d Dialect) *statements {
	if d == SQLite {
		return ofSQLite
	}
	return ofPostgres
}

var inUnits = regexp.MustCompile(`\{now\+(\$\d+)\}`)

// say is a statement in the dialect. It is written with {now} for the time, {now+$3} for
// one that is so many units later, and $1, $2, … for arguments.
func (d Dialect) say(s string) string {
	if d == SQLite {
		s = inUnits.ReplaceAllString(s, "({now} + $1)")
		return strings.NewReplacer("{now}", "CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)", "$", "?").Replace(s)
	}
	s = inUnits.ReplaceAllString(s, "(clock_timestamp() + $1::bigint * interval '1 microsecond')")
	return strings.ReplaceAll(s, "{now}", "clock_timestamp()")
}

func newStatements(d Dialect) *statements {
	// What an answer counts by: $1 is the row, $2 the attempt.
	const mine = "seq = $1 AND attempt = $2 AND leased AND ready > {now}"
	// If an ID is already that of a dead letter, as EnqueueTx may let happen, the later one is kept.
	const orReplace = `
			ON CONFLICT (queue, id) DO UPDATE SET seq = excluded.seq, data = excluded.data, header = excluded.header,
				attempt = excluded.attempt, reason = excluded.reason, at = excluded.at`
	s := &statements{d: d, now: "{now}"} // now is one moment in all of a statement
	if d == Postgres {
		s.now = "statement_timestamp()"
		// The time is that of the statement, which an index can be searched by. The array
		// is made once, so no more rows are locked than are leased.
		s.pull = `WITH due AS (
				SELECT seq, ready FROM shoal_jobs WHERE queue = $1 AND ready <= statement_timestamp()
				ORDER BY ready, seq LIMIT $2 FOR UPDATE SKIP LOCKED),
			leased AS (
				UPDATE shoal_jobs SET attempt = attempt + 1, leased = TRUE, ready = {now+$3}
				WHERE seq = ANY (ARRAY(SELECT seq FROM due))
				RETURNING seq, id, data, header, attempt)
			SELECT l.seq, l.id, l.data, l.header, l.attempt FROM leased l JOIN due USING (seq) ORDER BY due.ready, due.seq`
		const noteGone = `
			INSERT INTO shoal_done (queue, id, seq, attempt, until)
			SELECT queue, id, seq, attempt, {now+$3} FROM gone
			ON CONFLICT (queue, id) DO UPDATE SET seq = excluded.seq, attempt = excluded.attempt, until = excluded.until`
		s.ack = `WITH gone AS (DELETE FROM shoal_jobs WHERE ` + mine + ` RETURNING queue, id, seq, attempt)` + noteGone
		s.ackMany = `WITH gone AS (
				DELETE FROM shoal_jobs WHERE seq = ANY (ARRAY(
					SELECT j.seq FROM shoal_jobs j, unnest($1::text::bigint[], $2::text::int[]) AS m (seq, attempt)
					WHERE j.seq = m.seq AND j.attempt = m.attempt AND j.leased AND j.ready > {now}
					FOR UPDATE OF j SKIP LOCKED))
				RETURNING queue, id, seq, attempt),
			noted AS (` + noteGone + `)
			SELECT seq, attempt FROM gone`
		s.term = `WITH gone AS (DELETE FROM shoal_jobs WHERE ` + mine + ` RETURNING seq, queue, id, data, header, attempt)
			INSERT INTO shoal_dead (seq, queue, id, data, header, attempt, reason, at)
			SELECT seq, queue, id, data, header, attempt, $3::text, {now} FROM gone` + orReplace
		s.extend = `UPDATE shoal_jobs SET ready = {now+$3} WHERE seq = ANY (ARRAY(
			SELECT seq FROM shoal_jobs WHERE ` + mine + ` FOR UPDATE SKIP LOCKED))`
		s.free = `SELECT 1 FROM shoal_jobs WHERE seq = $1 FOR UPDATE SKIP LOCKED`
		s.sweep = `DELETE FROM shoal_done WHERE (queue, id) IN (
			SELECT queue, id FROM shoal_done WHERE until <= statement_timestamp() LIMIT $1 FOR UPDATE SKIP LOCKED)`
	} else {
		s.pull = `SELECT seq, id, data, header, attempt + 1 FROM shoal_jobs WHERE queue = $1 AND ready <= {now}
			ORDER BY ready, seq LIMIT $2`
		s.lease = `UPDATE shoal_jobs SET attempt = attempt + 1, leased = TRUE, ready = {now+$3}
			WHERE queue = $1 AND (ready, seq) <= (SELECT ready, seq FROM shoal_jobs WHERE seq = $2)`
		s.ack = `INSERT INTO shoal_done (queue, id, seq, attempt, until)
			SELECT queue, id, seq, attempt, {now+$3} FROM shoal_jobs WHERE ` + mine + `
			ON CONFLICT (queue, id) DO UPDATE SET seq = excluded.seq, attempt = excluded.attempt, until = excluded.until`
		s.term = `INSERT INTO shoal_dead (seq, queue, id, data, header, attempt, reason, at)
			SELECT seq, queue, id, data, header, attempt, $3, {now} FROM shoal_jobs WHERE ` + mine + orReplace
		s.newRow = `UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'shoal_jobs'`
		s.remove = `DELETE FROM shoal_jobs WHERE seq = $1`
		s.extend = `UPDATE shoal_jobs SET ready = {now+$3} WHERE ` + mine
		s.sweep = `DELETE FROM shoal_done WHERE (queue, id) IN (
			SELECT queue, id FROM shoal_done WHERE until <= {now} LIMIT $1)`
	}
	s.next = `SELECT min(ready) - {now} FROM shoal_jobs WHERE queue = $1`
	if d == Postgres {
		s.next = `SELECT ceil(extract(epoch FROM min(ready) - {now}) * 1000000)::bigint FROM shoal_jobs WHERE queue = $1`
	}
	s.nak = `UPDATE shoal_jobs SET leased = FALSE, ready = {now+$3} WHERE ` + mine
	// In another row, so that the answer of one attempt is none of the next one of that number.
	row := "DEFAULT"
	if d == SQLite {
		row = "(SELECT seq FROM sqlite_sequence WHERE name = 'shoal_jobs')" // after newRow
	}
	s.release = `UPDATE shoal_jobs SET seq = ` + row + `, attempt = attempt - 1, leased = FALSE, ready = {now} WHERE ` + mine
	s.fate = `SELECT CASE
		WHEN EXISTS (SELECT 1 FROM shoal_done WHERE queue = $3 AND id = $4 AND seq = $1 AND attempt = $2) THEN '` + fateDone + `'
		WHEN EXISTS (SELECT 1 FROM shoal_done WHERE queue = $3 AND id = $4 AND seq = $1) THEN '` + fateLost + `'
		WHEN EXISTS (SELECT 1 FROM shoal_dead WHERE seq = $1 AND attempt = $2) THEN '` + fateDead + `'
		WHEN EXISTS (SELECT 1 FROM shoal_dead WHERE seq = $1) THEN '` + fateLost + `'
		WHEN EXISTS (SELECT 1 FROM shoal_jobs WHERE seq = $1 AND attempt = $2 AND NOT leased) THEN '` + fateBack + `'
		WHEN EXISTS (SELECT 1 FROM shoal_jobs WHERE ` + mine + `) THEN '` + fateHeld + `'
		WHEN EXISTS (SELECT 1 FROM shoal_jobs WHERE seq = $1 AND attempt = $2) THEN '` + fateExpired + `'
		WHEN EXISTS (SELECT 1 FROM shoal_jobs WHERE seq = $1) THEN '` + fateLost + `'
		WHEN EXISTS (SELECT 1 FROM shoal_jobs WHERE queue = $3 AND id = $4 AND seq > $1 AND attempt = $2 - 1 AND NOT leased) THEN '` + fateReleased + `'
		WHEN EXISTS (SELECT 1 FROM shoal_jobs WHERE queue = $3 AND id = $4) THEN '` + fateLost + `'
		WHEN EXISTS (SELECT 1 FROM shoal_dead WHERE queue = $3 AND id = $4) THEN '` + fateLost + `'
		WHEN EXISTS (SELECT 1 FROM shoal_done WHERE queue = $3 AND id = $4) THEN '` + fateLost + `'
		ELSE '` + fateGone + `' END`
	s.depth = `SELECT
		(SELECT count(*) FROM shoal_jobs WHERE queue = $1 AND ready <= ` + s.now + `),
		(SELECT count(*) FROM shoal_jobs WHERE queue = $1 AND ready > ` + s.now + ` AND NOT leased),
		(SELECT count(*) FROM shoal_jobs WHERE queue = $1 AND ready > ` + s.now + ` AND leased),
		(SELECT count(*) FROM shoal_dead WHERE queue = $1),
		(SELECT coalesce(` + d.number(s.now+" - min(ready)") + `, 0) FROM shoal_jobs WHERE queue = $1)`
	for _, p := range []*string{
		&s.next, &s.pull, &s.ack, &s.remove, &s.nak, &s.term, &s.extend, &s.free, &s.fate, &s.sweep,
		&s.ackMany, &s.depth, &s.release, &s.lease,
	} {
		*p = d.say(*p)
	}
	return s
}

// insert inserts n rows: the arguments are the queue, then the ID, the payload, the
// header and the delay of each. It returns the rows that were inserted.
func (s *statements) insert(n int) string {
	row := "($1, $%d, $%d, $%d, {now+$%d})"
	if s.d == Postgres {
		row = "($1, $%d, $%d::bytea, $%d::text, {now+$%d})"
	}
	var b strings.Builder
	b.WriteString("INSERT INTO shoal_jobs (queue, id, data, header, ready) VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, row, 4*i+2, 4*i+3, 4*i+4, 4*i+5)
	}
	b.WriteString(" ON CONFLICT (queue, id) DO NOTHING RETURNING seq")
	return s.d.say(b.String())
}

// uninsert deletes those of n rows that have the ID of a job that is over.
func (s *statements) uninsert(n int) string {
	in := make([]string, n)
	for i := range in {
		in[i] = "$" + strconv.Itoa(i+1)
	}
	return s.d.say(`DELETE FROM shoal_jobs WHERE seq IN (` + strings.Join(in, ", ") + `) AND (
		EXISTS (SELECT 1 FROM shoal_done d WHERE d.queue = shoal_jobs.queue AND d.id = shoal_jobs.id AND d.until > {now})
		OR EXISTS (SELECT 1 FROM shoal_dead d WHERE d.queue = shoal_jobs.queue AND d.id = shoal_jobs.id))`)
}

// probes are what only the one dialect can do.
var probes = map[Dialect]string{
	Postgres: `SELECT current_setting('server_version_num')`,
	SQLite:   `SELECT sqlite_version() || CASE WHEN unixepoch('now', 'subsec') IS NULL THEN ' is too old' ELSE '' END`,
}

// stand looks at the database, and makes the tables or brings them to the present version.
func (q *Queue) stand(ctx context.Context) error {
	var version string
	probe := func(d Dialect) error {
		return q.again(ctx, func() error { return q.db.QueryRowContext(ctx, probes[d]).Scan(&version) })
	}
	if err := probe(q.d); err != nil {
		if other := Postgres + SQLite - q.d; probe(other) == nil {
			return fmt.Errorf("%w: the database is no %v, it is %v", jobs.ErrConfig, q.d, other)
		}
		return err
	}
	if q.d == SQLite && strings.HasSuffix(version, "is too old") {
		return fmt.Errorf("%w: SQLite %s: want 3.42 or later", jobs.ErrConfig, version)
	}
	if q.d == SQLite {
		var file string
		err := q.again(ctx, func() error {
			return q.db.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&file)
		})
		if err != nil {
			return err
		}
		q.file, q.turn = file, turnOf(file)
	}
	have := 0
	err := q.again(ctx, func() (err error) {
		have, err = q.version(ctx, q.db)
		return err
	})
	switch {
	case err != nil:
		return err
	case have > SchemaVersion:
		return newer(have)
	case have < SchemaVersion && q.existing:
		if err := q.haveTables(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%w: the tables have version %d: want %d: Migrations says how they are brought to it", jobs.ErrConfig, have, SchemaVersion)
	case have < SchemaVersion:
		if err := q.write(ctx, func() error { return q.inTx(ctx, q.migrate(ctx)) }); err != nil {
			return fmt.Errorf("bring the tables from version %d to %d: %w", have, SchemaVersion, err)
		}
	}
	return q.haveTables(ctx)
}

func newer(version int) error {
	return fmt.Errorf("%w: the tables have version %d, and this program knows versions up to %d: use a newer version of contrib/sql",
		jobs.ErrConfig, version, SchemaVersion)
}

// version is the version of the tables; 0 if one is missing.
func (q *Queue) version(ctx context.Context, r runner) (version int, err error) {
	var have, says int
	if err := r.QueryRowContext(ctx, whichTables[q.d]).Scan(&have, &says); err != nil {
		return 0, err
	}
	version = 1
	if says > 0 {
		err := r.QueryRowContext(ctx, `SELECT version FROM shoal_schema`).Scan(&version)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, fmt.Errorf("table shoal_schema: %w", err)
		}
	}
	if have < len(tables) && version <= SchemaVersion {
		return 0, nil
	}
	return version, nil
}

// whichTables counts those of version 1 that are there, and shoal_schema.
var whichTables = map[Dialect]string{
	Postgres: `SELECT count(to_regclass('shoal_jobs')) + count(to_regclass('shoal_dead')) + count(to_regclass('shoal_done')),
		count(to_regclass('shoal_schema'))`,
	SQLite: `SELECT count(*) FILTER (WHERE name <> 'shoal_schema'), count(*) FILTER (WHERE name = 'shoal_schema') FROM sqlite_master
		WHERE type = 'table' AND name IN ('shoal_jobs', 'shoal_dead', 'shoal_done', 'shoal_schema')`,
}

// migrate brings the tables to the version of this package.
func (q *Queue) migrate(ctx context.Context) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		if q.d == Postgres { // as two may do it at the same time
			if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(8317704981207)`); err != nil {
				return err
			}
		}
		version, err := q.version(ctx, tx)
		if err != nil {
			return err
		}
		if version > SchemaVersion {
			return newer(version)
		}
		for _, m := range Migrations(q.d)[version:] {
			for s := range strings.SplitAfterSeq(m, ";\n") {
				if s == "" {
					continue
				}
				if _, err := tx.ExecContext(ctx, s); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func (q *Queue) haveTables(ctx context.Context) error {
	for _, t := range tables {
		err := q.again(ctx, func() error {
			rows, err := q.db.QueryContext(ctx, `SELECT `+t.columns+` FROM `+t.name+` WHERE 1 = 0`)
			if err != nil {
				return err
			}
			rows.Next()
			return errors.Join(rows.Err(), rows.Close())
		})
		switch {
		case err == nil:
		case missing(err):
			return fmt.Errorf("%w: there is no table %s: Schema says how it is made: %w", jobs.ErrConfig, t.name, err)
		case sqlState(err) == "42703", mentions(err, "no such column"):
			return fmt.Errorf("%w: table %s is not that of Schema: %w", jobs.ErrConfig, t.name, err)
		default:
			return fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	return nil
}

// SQLiteDSN returns the data source name of the SQLite database in the file path, for
// sql.Open with the driver "sqlite" of modernc.org/sqlite. It has the settings that the
// package's documentation lists.
func SQLiteDSN(path string) string {
	p := filepath.ToSlash(path)
	if filepath.VolumeName(path) != "" {
		p = "/" + p
	}
	return "file:" + (&url.URL{Path: p}).EscapedPath() +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
}
