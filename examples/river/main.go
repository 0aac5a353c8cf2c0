// Command river works the jobs of River on a pool of shoal, and serves the pages of both: the
// pool's at /debug/shoal/, and River UI at /river/. Both are behind one token.
//
//	go run . -dsn postgres://localhost/mydb
//
// At the start and every minute, by a cron schedule, a job called digest asks for a mail
// to each of three people. The mails are unique: a person gets at most one in each hour. A
// mail is noted in the table example_mail in the transaction that completes its job.
//
// Without -token or $SHOAL_TOKEN it makes and prints a token. A browser asks for a name and a
// password: the name does not matter, and the password is the token.
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/robfig/cron/v3"
	"riverqueue.com/riverui"

	"github.com/shoal-go/shoal"
	shoalriver "github.com/shoal-go/shoal/contrib/river"
	"github.com/shoal-go/shoal/shoalhttp"
)

func main() {
	dsn := flag.String("dsn", os.Getenv("DATABASE_URL"), "the `address` of a Postgres database; the default is $DATABASE_URL")
	listen := flag.String("listen", "localhost:8080", "the `address` to listen on")
	token := flag.String("token", os.Getenv("SHOAL_TOKEN"), "the token of both pages, at least 16 bytes; the default is $SHOAL_TOKEN, or a new one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *token == "" {
		*token = rand.Text()
		fmt.Println("token:", *token)
	}
	ln, err := net.Listen("tcp", *listen)
	if err == nil {
		fmt.Printf("http://%s/debug/shoal/\nhttp://%[1]s/river/\n", ln.Addr())
		err = run(ctx, *dsn, *token, ln)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

// run works jobs and serves the pages until ctx ends. Then it ends in order: first the pages,
// then River, and then the pool.
func run(ctx context.Context, dsn, token string, ln net.Listener) (err error) {
	defer ln.Close()
	db, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := prepare(ctx, db); err != nil {
		return err
	}

	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(8)))
	defer pool.Close()
	mails := shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithMaxWorkers(4)))
	client, err := newClient(db, func(job *rivertype.JobRow) *shoal.Pool {
		if job.Kind == (Mail{}).Kind() {
			return mails
		}
		return pool
	})
	if err != nil {
		return err
	}
	pages, err := newPages(ctx, token, pool, client)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}

	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	// Open requests of the pages are ended, and jobs have ten seconds.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, server.Close(), client.Stop(end), pool.Shutdown(end))
}

// prepare makes the tables.
func prepare(ctx context.Context, db *pgxpool.Pool) error {
	m, err := rivermigrate.New(riverpgxv5.New(db), nil)
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = db.Exec(ctx, "CREATE TABLE IF NOT EXISTS example_mail (recipient text NOT NULL, sent timestamptz NOT NULL DEFAULT now())")
	return err
}

// ----- the jobs -----

// A Mail is to be sent.
type Mail struct {
	To string `json:"to"`
}

// Kind implements river.JobArgs.
func (Mail) Kind() string { return "mail" }

// InsertOpts makes mails unique: one to each recipient in an hour.
func (Mail) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByPeriod: time.Hour}}
}

// A Digest asks for the mails.
type Digest struct{}

// Kind implements river.JobArgs.
func (Digest) Kind() string { return "digest" }

var recipients = []string{"ann", "bob", "eve"}

func newClient(db *pgxpool.Pool, pick func(*rivertype.JobRow) *shoal.Pool) (*river.Client[pgx.Tx], error) {
	minutely, err := cron.ParseStandard("* * * * *")
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[Digest]) error {
		client := river.ClientFromContext[pgx.Tx](ctx)
		for _, name := range recipients {
			if _, err := client.Insert(ctx, Mail{To: name}, nil); err != nil {
				return err
			}
		}
		return nil
	}))
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[Mail]) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO example_mail (recipient) VALUES ($1)", job.Args.To); err != nil {
				return err
			}
			return shoalriver.CompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		})
	}))
	return river.NewClient(riverpgxv5.New(db), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}},
		Workers: workers,
		PeriodicJobs: []*river.PeriodicJob{
			river.NewPeriodicJob(minutely, func() (river.JobArgs, *river.InsertOpts) { return Digest{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
		},
		JobTimeout:           time.Minute,
		RescueStuckJobsAfter: 5 * time.Minute,
		Middleware: []rivertype.Middleware{
			shoalriver.Within(4 * time.Minute),
			shoalriver.Middleware(pick),
		},
	})
}

// ----- the pages -----

func newPages(ctx context.Context, token string, pool *shoal.Pool, client *river.Client[pgx.Tx]) (http.Handler, error) {
	page, err := shoalhttp.New(shoalhttp.WithPools(pool), shoalhttp.WithControls(token))
	if err != nil {
		return nil, err
	}
	ui, err := riverui.NewHandler(&riverui.HandlerOpts{
		Endpoints: riverui.NewEndpoints(client, nil),
		Logger:    slog.Default(),
		Prefix:    "/river",
	})
	if err != nil {
		return nil, err
	}
	if err := ui.Start(ctx); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/shoal/", page)
	mux.Handle("/river/", ui)
	mux.Handle("/{$}", http.RedirectHandler("/river/", http.StatusFound))
	return behind(token, mux), nil
}

// behind serves only requests that have the token. A browser asks for it as a password, and
// sends it with each request from then on, so requests that another site makes it send are
// refused: River UI itself does not look.
func behind(token string, h http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	h = http.NewCrossOriginProtection().Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		got := sha256.Sum256([]byte(password))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="the token is the password"`)
			http.Error(w, "the token is wrong, or missing", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}
