package jobs_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

// A queue has jobs of two types. Each type has a payload, and a handler, of its own.
func ExampleMux() {
	type Mail struct{ To string }
	type Report struct{ Month int }

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	mux := jobs.Mux{
		"mail": jobs.Handle(func(ctx context.Context, m Mail) error {
			fmt.Println("a mail to", m.To)
			return nil
		}),
		"report": jobs.Handle(func(ctx context.Context, r Report) error {
			fmt.Println("the report of month", r.Month)
			cancel() // it is the last job of the example
			return nil
		}),
	}

	q := jobstest.NewQueue(time.Minute)
	enqueue := func(kind string, m jobs.Message, err error) {
		m.Header = jobs.Header{jobs.TypeHeader: kind}
		if err == nil {
			err = q.Enqueue(ctx, m)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	m, err := jobs.Encode(Mail{To: "ada@example.org"})
	enqueue("mail", m, err)
	m, err = jobs.Encode(Report{Month: 7})
	enqueue("report", m, err)

	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()
	if err := jobs.Serve(ctx, pool, q, mux.Handle); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a mail to ada@example.org
	// the report of month 7
}
