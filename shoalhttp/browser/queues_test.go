package browser_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"github.com/shoal-go/shoal/shoalhttp"
)

// buried is a queue with three dead letters of type mail and one of type resize.
func buried(t *testing.T) *jobstest.Queue {
	t.Helper()
	q := jobstest.NewQueue(time.Minute)
	for i, kind := range []string{"mail", "resize", "mail", "mail"} {
		m := jobs.Message{ID: fmt.Sprintf("job-%d", i+1), Data: []byte("to: <b>somebody\u202e</b>"), Header: jobs.Header{jobs.TypeHeader: kind}}
		if err := q.Enqueue(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	all, err := q.Pull(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if err := d.Term(t.Context(), "exit status 1\nsmtp: no route to host\n  at line 2"); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

func TestDeadLettersFlow(t *testing.T) {
	t.Parallel()
	q := buried(t)
	pool := busy(t, "work")
	url := serve(t, shoalhttp.WithPools(pool), shoalhttp.WithQueue("mails", q), shoalhttp.WithControls(token))
	const (
		said    = `document.querySelector('#qs .said').textContent`
		figures = `[...document.querySelectorAll('#qs dd')].map(e => e.textContent).join(' ')`
		letters = `[...document.querySelectorAll('#dead-list > details')].map(e => e.querySelector('.muted').textContent.split(',')[0]).join('|')`
		asked   = `document.querySelector('#ask').open && document.querySelector('#ask-text').textContent`
	)
	for _, width := range []int64{360, 1280} {
		p := open(t, url, size(width, 900), expect(`status of 403`))
		p.live()
		p.until(said + ` === '◆ 4 jobs are dead letters'`)
		p.until(figures + ` === '0 0 0 4 –'`)
		p.until(`document.querySelector('#worst').textContent.includes('1 of 1 queue with problems. queue mails: 4 jobs are dead letters')`)
		p.click("#qs button")
		p.until(asked + `.includes('Show dead letters needs the token')`)
		p.keys("a wrong one", kb.Enter)
		p.until(`document.querySelector('#dead-said.bad').textContent.includes('the token is wrong')`)
		p.click("#qs button")
		p.until(asked)
		p.keys(token, kb.Enter)
		p.until(letters + ` === 'job job-4 of type mail|job job-3 of type mail|job job-2 of type resize|job job-1 of type mail'`)
		p.click("#dead-list summary")
		p.until(`document.querySelector('#dead-list details[open] b').textContent === 'exit status 1'`)
		p.until(`[...document.querySelectorAll('#dead-list details[open] pre')].map(e => e.textContent).join('|') === 'smtp: no route to host\n  at line 2|to: <b>somebody\\u{202e}</b>'`)
		if wide := eval[int](p, `document.documentElement.scrollWidth`); int64(wide) > width {
			t.Errorf("the page is %d px wide on a screen of %d", wide, width)
		}
		snap(p, fmt.Sprintf("dead-%d", width))
		if width < 500 {
			continue
		}
		p.click("#dead-list details[open] .bar button:last-child")
		p.until(letters + ` === 'job job-4 of type mail|job job-3 of type mail|job job-1 of type mail' && document.querySelector('#dead-retry').textContent === 'Retry all of type mail'`)
		p.click("#dead-retry")
		p.until(asked + `.startsWith('Retry all 3 dead letters of type mail of queue mails?')`)
		p.click("#ask-no")
		p.until(`!document.querySelector('#ask').open`)
		if n := len(q.Dead()); n != 4 {
			t.Errorf("retried, though that was cancelled: %d are left", n)
		}
		p.click("#dead-retry")
		p.until(asked)
		p.click("#ask-yes")
		p.until(`document.querySelector('#dead-said').textContent.startsWith('3 jobs retried at ')`)
		p.until(figures + `.startsWith('3 0 0 1 ')`)
		p.until(letters + ` === '' && document.querySelector('#dead-retry').disabled`)
		// They are worked.
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- jobs.Serve(ctx, pool, q, func(context.Context, *jobs.Job) error { return nil }, jobs.WithName("mails"))
		}()
		p.until(figures + ` === '0 0 0 1 –'`)
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#dead-type").value = ""`), chromedp.SetValue(chromedp.CSS("#dead-id"), "job-2"))
		p.click("#dead-filter button")
		p.until(letters + ` === 'job job-2 of type resize' && document.querySelector('#dead-delete').textContent === 'Delete all with ID job-2'`)
		p.click("#dead-delete")
		p.until(asked + `.startsWith('Delete the dead letter with ID job-2 of queue mails for ever?')`)
		p.click("#ask-yes")
		p.until(said + ` === '✓ no job waits for long, none is dead' && document.querySelector('#worst').textContent.startsWith('✓ 1 pool and 1 queue')`)
		snap(p, "drained")
		p.click("#dead-close")
		p.until(`document.querySelector('#dead').hidden`)
	}
}

// TestNothingIsDoneToWhatIsNotListed: a filter that was typed but not shown yet is not taken for
// the one that holds.
func TestNothingIsDoneToWhatIsNotListed(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, shoalhttp.WithPools(busy(t, "work")), shoalhttp.WithQueue("mails", buried(t)), shoalhttp.WithControls(token)), expect(`status of 400`))
	p.live()
	p.click("#qs button")
	p.until(`document.querySelector('#ask').open`)
	p.keys(token, kb.Enter)
	const locked = `['retry', 'delete'].map(s => document.querySelector('#dead-' + s).disabled).join(' ')`
	p.until(listed + ` === '4 dead letters, the newest first' && ` + locked + ` === 'false false'`)
	p.click("#dead-type")
	p.keys("mail")
	p.until(locked + ` === 'true true' && document.querySelector('#dead-said').textContent === 'Show lists these'`)
	p.keys(kb.Enter)
	p.until(listed + ` === '3 dead letters of type mail, the newest first' && ` + locked + ` === 'false false'`)
	p.click("#dead-older")
	p.keys("2x", kb.Enter) // is refused, and what is listed is not of it
	p.until(locked + ` === 'true true' && document.querySelector('#dead-said').textContent.includes('older than "2x"')`)
}

// TestAQueueDrains: the page says how fast, and when it is empty.
func TestAQueueDrains(t *testing.T) {
	t.Parallel()
	q := jobstest.NewQueue(time.Minute)
	put(t, q, 4000)
	pool := serving(t, q, func(_ *jobs.Job, over <-chan struct{}) error {
		select {
		case <-over:
		case <-time.After(200 * time.Millisecond):
		}
		return nil
	})
	both(t, serve(t, shoalhttp.WithPools(pool), shoalhttp.WithQueue("mails", q)), "draining", func(p *page, _ bool) {
		p.until(`/[0-9]+ jobs fewer a second: empty in about [0-9hms]+$/.test(` + queueSaid + `)`)
	})
}

func TestNoDeadLettersWithoutControls(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, shoalhttp.WithPools(busy(t, "work")), shoalhttp.WithQueue("mails", buried(t))))
	p.live()
	p.until(`document.querySelector('#qs .said').textContent === '◆ 4 jobs are dead letters' && document.querySelector('#qs button').hidden`)
}

// snap writes a picture of the page, if -screenshots asks for any.
func snap(p *page, name string) {
	if *screenshots == "" {
		return
	}
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.MkdirAll(*screenshots, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
