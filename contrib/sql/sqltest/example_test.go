package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/shoal-go/shoal"
	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	"github.com/shoal-go/shoal/jobs"
)

// A transfer is a job, and its effect happens exactly once: it is acknowledged in the
// transaction that moves the money.
func Example() {
	dir, err := os.MkdirTemp("", "shoal-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", shoalsql.SQLiteDSN(filepath.Join(dir, "bank.db")))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (100)`); err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q, err := shoalsql.Open(ctx, db, shoalsql.SQLite, "transfers")
	if err != nil {
		log.Fatal(err)
	}
	type transfer struct{ Amount int }
	m, err := jobs.Encode(transfer{Amount: 42})
	if err != nil {
		log.Fatal(err)
	}
	if err := q.Enqueue(ctx, m); err != nil {
		log.Fatal(err)
	}

	pool := shoal.Must(shoal.New())
	defer pool.Close()
	err = jobs.Serve(ctx, pool, q, jobs.Handle(func(ctx context.Context, t transfer) error {
		defer cancel() // the example has one job
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance - ?`, t.Amount); err != nil {
			return err
		}
		if err := q.AckTx(ctx, tx, jobs.From(ctx)); err != nil {
			return err
		}
		return tx.Commit()
	}))
	if err != nil {
		log.Fatal(err)
	}
	var balance int
	if err := db.QueryRow(`SELECT balance FROM account`).Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance:", balance)
	// Output: balance: 58
}
