package browser_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"github.com/shoal-go/shoal/shoalhttp"
)

// serving has a pool of four workers do the jobs of a queue until the test ends. h is given a
// channel that is closed then.
func serving(t *testing.T, q jobs.Source, h func(j *jobs.Job, over <-chan struct{}) error) *shoal.Pool {
	t.Helper()
	p := newPool(t, shoal.WithName("work"), shoal.WithMaxWorkers(4), shoal.WithTiming(shoal.TimingFull))
	for range 20 { // so that it is known what is usual
		if err := p.SubmitWait(t.Context(), func(context.Context) error { time.Sleep(time.Millisecond); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	over, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- jobs.Serve(ctx, p, q, func(_ context.Context, j *jobs.Job) error { return h(j, over) },
			jobs.WithName("mails"), jobs.WithMaxAttempts(1), jobs.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	}()
	t.Cleanup(func() {
		close(over)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

// put enqueues n jobs of type resize, the first of which is job 42.
func put(t *testing.T, q jobs.Sink, n int) {
	t.Helper()
	for i := range n {
		if err := q.Enqueue(t.Context(), jobs.Message{ID: fmt.Sprint(42 + i), Header: jobs.Header{jobs.TypeHeader: "resize"}, Data: []byte(`{"photo": 7}`)}); err != nil {
			t.Fatal(err)
		}
	}
}

// widths are those of a phone and of a screen.
var widths = []int64{360, 1280}

// both has a test look at a page on a phone and on a screen.
func both(t *testing.T, url, name string, look func(p *page, wide bool), more ...setup) {
	t.Helper()
	for _, width := range widths {
		on(t, width, url, name, look, more...)
	}
}

// on has a test look at a page on one of the widths.
func on(t *testing.T, width int64, url, name string, look func(p *page, wide bool), more ...setup) {
	t.Helper()
	p := open(t, url, append(more, size(width, map[bool]int64{true: 740, false: 900}[width < 500]))...)
	p.live()
	look(p, width > 500)
	if wide := eval[int](p, `document.documentElement.scrollWidth`); int64(wide) > width {
		t.Errorf("the page is %d px wide on a screen of %d", wide, width)
	}
	snap(p, fmt.Sprintf("%s-%d", name, width))
}

const (
	why       = `document.querySelector('#d-why').textContent`
	worst     = `document.querySelector('#worst').textContent`
	queueSaid = `document.querySelector('#qs .said').textContent`
	tale      = `document.querySelector('#q-body .tale').textContent`
	listed    = `document.querySelector('#dead-count').textContent`
)

func TestOneOfFourWorkersHangs(t *testing.T) {
	t.Parallel()
	q := jobstest.NewQueue(time.Minute)
	pool := serving(t, q, func(_ *jobs.Job, over <-chan struct{}) error { hangHereOnPurpose(over); return nil })
	put(t, q, 1)
	both(t, serve(t, shoalhttp.WithPools(pool), shoalhttp.WithQueue("mails", q), shoalhttp.WithControls(token)), "hung", func(p *page, _ bool) {
		p.until(`/^◆ job 42 of type resize has run for \d+s, 1 of 4 workers hangs; 99 of 100 tasks take at most /.test(` + why + `)`)
		p.until(`/^● its pool work: job 42 of type resize has run for \d+s, 1 of 4 workers hangs/.test(` + queueSaid + `)`)
		p.until(`/1 of 1 pool with problems. work: job 42 of type resize has run/.test(` + worst + `)`)
		p.until(`/^job 42 of type resize has run for \d+s$/.test(` + tale + `)`)
	})
}

func TestAllJobsFail(t *testing.T) {
	t.Parallel()
	for _, width := range widths { // with jobs of their own, as failures are told for a minute
		failing(t, width)
	}
}

func failing(t *testing.T, width int64) {
	t.Helper()
	q := jobstest.NewQueue(time.Minute)
	pool := serving(t, q, func(j *jobs.Job, _ <-chan struct{}) error {
		return jobs.WithOutput(errors.New("exit status 1\x1b[31m: convert: no decode delegate for this image format"), []byte("convert: no decode delegate\n"))
	})
	url := serve(t, shoalhttp.WithPools(pool), shoalhttp.WithQueue("mails", q), shoalhttp.WithControls(token))
	on(t, width, url, "failing", func(p *page, wide bool) {
		put(t, q, 23)
		p.until(`/^◆ 23 of \d+ tasks \(\d+%\) failed in the last .*; the last: job \d+ of type resize: exit status 1\\x1b\[31m: convert: no decode/.test(` + why + `)`)
		p.until(`/^◆ 23 jobs are dead letters; ● its pool work: 23 of /.test(` + queueSaid + `)`)
		p.until(`/^job \d+ of type resize failed .* ago: exit status 1\\x1b\[31m: convert: no decode/.test(` + tale + `)`)
		if wide {
			p.click("#qs button")
			p.until(`document.querySelector('#ask').open`)
			p.keys(token, kb.Enter)
			p.until(listed + ` === '23 dead letters, the newest first'`)
		}
	})
}

func TestThreeHundredDeadLetters(t *testing.T) {
	t.Parallel()
	q := jobstest.NewQueue(time.Minute)
	put(t, q, 300)
	ds, err := q.Pull(t.Context(), 300)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		if err := d.Term(t.Context(), "attempt 3 of 3: exit status 1\nconvert: no decode delegate"); err != nil {
			t.Fatal(err)
		}
	}
	pool := serving(t, q, func(*jobs.Job, <-chan struct{}) error { return nil })
	both(t, serve(t, shoalhttp.WithPools(pool), shoalhttp.WithQueue("mails", q), shoalhttp.WithControls(token)), "many-dead", func(p *page, wide bool) {
		p.until(why + ` === '● its queue mails: 300 jobs are dead letters'`)
		p.until(`/1 of 1 queue with problems. queue mails: 300 jobs are dead letters/.test(` + worst + `)`)
		p.click("#qs button")
		p.until(`document.querySelector('#ask').open`)
		p.keys(token, kb.Enter)
		of := func(part, first, last string) {
			t.Helper()
			p.until(listed + fmt.Sprintf(` === '%s, the newest first'`, part))
			p.until(fmt.Sprintf(`(l => l[0].textContent.includes('job %s of type resize,') && l[l.length - 1].textContent.includes('job %s of type resize,'))([...document.querySelectorAll('#dead-list > details')])`, first, last))
		}
		of("1 to 100 of 300 dead letters", "341", "242")
		p.click("#dead-next")
		of("101 to 200 of 300 dead letters", "241", "142")
		p.click("#dead-next")
		of("201 to 300 of 300 dead letters", "141", "42")
		p.until(`document.querySelector('#dead-next').disabled`)
		p.click("#dead-back")
		of("101 to 200 of 300 dead letters", "241", "142")
		p.until(`document.querySelector('#dead-retry').textContent === 'Retry all 300'`)
		if !wide {
			return
		}
		p.click("#dead-retry")
		p.until(`document.querySelector('#ask-text').textContent.startsWith('Retry all 300 dead letters of queue mails?')`)
		p.click("#ask-no")
		p.click("#dead-type")
		p.keys("resize")
		p.click("#dead-newer")
		p.keys("1h", kb.Enter)
		of("1 to 100 of at least 101 dead letters of type resize newer than 1h", "341", "242")
		p.until(`document.querySelector('#dead-delete').textContent === 'Delete all of type resize newer than 1h'`)
		p.click("#dead-older")
		p.keys("2h", kb.Enter)
		p.until(listed + ` === 'no dead letter of type resize older than 2h newer than 1h' && document.querySelector('#dead-delete').disabled`)
	})
}

func TestAQueueThatIsAway(t *testing.T) {
	t.Parallel()
	q := away{jobstest.NewQueue(time.Minute)}
	pool := serving(t, q, func(*jobs.Job, <-chan struct{}) error { return nil })
	both(t, serve(t, shoalhttp.WithPools(pool), shoalhttp.WithQueue("mails", q), shoalhttp.WithControls(token)), "away", func(p *page, _ bool) {
		p.until(`/^◆ a Pull of the queue mails failed .* ago: dial tcp 192\.0\.2\.1:5432: connect: no route to host/.test(` + why + `)`)
		p.until(`/^◆ it cannot be reached( for at least .*)?: dial tcp 192\.0\.2\.1:5432: connect: no route to host/.test(` + queueSaid + `)`)
		p.click("#qs button")
		p.until(`document.querySelector('#ask').open`)
		p.keys(token, kb.Enter)
		p.until(`document.querySelector('#dead-said.bad').textContent.includes('dial tcp 192.0.2.1:5432: connect: no route to host') && document.querySelector('#dead-retry').disabled && document.querySelector('#dead-delete').disabled`)
	}, expect(`status of 502`))
}

// away is a queue that cannot be reached.
type away struct{ *jobstest.Queue }

var errAway = errors.New("dial tcp 192.0.2.1:5432: connect: no route to host")

func (away) Pull(context.Context, int) ([]jobs.Delivery, error) { return nil, errAway }
func (away) Depth(context.Context) (jobs.Depth, error)          { return jobs.Depth{}, errAway }
func (away) DeadLetters(context.Context, jobs.DeadFilter) ([]jobs.DeadLetter, error) {
	return nil, errAway
}

// A queue that has not answered yet is not said to be well.
func TestAQueueThatIsNotMeasuredYet(t *testing.T) {
	t.Parallel()
	q := slowDepth{jobstest.NewQueue(time.Minute), make(chan struct{})}
	pool := serving(t, q, func(*jobs.Job, <-chan struct{}) error { return nil })
	p := open(t, serve(t, shoalhttp.WithPools(pool), shoalhttp.WithQueue("mails", q)))
	p.live()
	// After five seconds it cannot be reached.
	p.until(worst + ` === '1 pool, nothing wrong in the last minute; 1 queue not measured yet' || ` + worst + `.includes('cannot be reached')`)
	close(q.answers)
	p.until(worst + ` === '✓ 1 pool and 1 queue, nothing wrong in the last minute'`)
	p.until(queueSaid + ` === '✓ no job waits for long, none is dead'`)
	p.until(why + ` === '✓ nothing wrong with its tasks in the last minute'`)
}

type slowDepth struct {
	*jobstest.Queue
	answers chan struct{}
}

func (q slowDepth) Depth(ctx context.Context) (jobs.Depth, error) {
	select {
	case <-q.answers:
		return q.Queue.Depth(ctx)
	case <-ctx.Done():
		return jobs.Depth{}, ctx.Err()
	}
}
