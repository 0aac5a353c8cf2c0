package shoalhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"github.com/shoal-go/shoal/shoalhttp"
)

// poolIn is a pool named work that serves the queue mails and is in a state.
func poolIn(t *testing.T, h *shoalhttp.Page, state string) (p *shoal.Pool, end func()) {
	ctx := t.Context()
	p = newPool(t, shoal.WithName("work"), shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(10), shoal.WithTiming(shoal.TimingFull))
	for range 100 {
		p.SubmitWait(ctx, func(context.Context) error { time.Sleep(time.Millisecond); return nil })
	}
	if err := h.Add(p); err != nil {
		t.Fatal(err)
	}
	q := jobstest.NewQueue(time.Hour)
	release := make(chan struct{})
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		served <- jobs.Serve(ctx, p, q, func(_ context.Context, j *jobs.Job) error {
			switch state {
			case "hung", "stalled", "late":
				<-release
			case "failing":
				return errors.New("exit status 1\x1b[31m")
			}
			return nil
		}, jobs.WithName("mails"), jobs.WithMaxAttempts(1), jobs.WithDrain(0), jobs.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	}()
	synctest.Wait()
	other := func() {}
	if state == "late" { // half a minute after a task of another kind
		other = hold(t, p, 1)
		time.Sleep(30 * time.Second)
	}
	n := map[string]int{"ok": 100, "hung": 1, "late": 1, "stalled": 4, "failing": 23}[state]
	for i := range n {
		if err := q.Enqueue(ctx, jobs.Message{ID: fmt.Sprint(42 + i), Header: jobs.Header{jobs.TypeHeader: "resize"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if state == "stalled" {
		p.Submit(func() {})
	}
	return p, func() {
		other()
		close(release)
		synctest.Wait()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// queueIn answers as a queue in a state does.
func queueIn(state string) *depther {
	return &depther{f: func(context.Context) (jobs.Depth, error) {
		switch state {
		case "lagging":
			return jobs.Depth{Ready: 300, Leased: 4, Oldest: 4 * time.Minute}, nil
		case "left":
			return jobs.Depth{Ready: 300, Oldest: 4 * time.Minute}, nil
		case "dead":
			return jobs.Depth{Dead: 23}, nil
		case "away":
			return jobs.Depth{}, errors.New("no route to host")
		}
		return jobs.Depth{}, nil
	}}
}

// TestNoVerdictContradictsAnother has each state of a pool beside each one of the queue that it
// serves. What is wrong with one of them is said of the other too. Where nothing is said, the page
// writes "nothing wrong with its tasks" and "no job waits for long, none is dead".
func TestNoVerdictContradictsAnother(t *testing.T) {
	const lately = "23 jobs became dead letters in the last 55s"
	pools := map[string][]string{
		"ok":      nil,
		"hung":    {"2 hanging: job 42 of type resize has run for 55s, 1 of 4 workers hangs; 99 of 100 tasks take at most 1ms"},
		"stalled": {"3 stalled: all 4 workers busy, 1 task queued, nothing finished for at least 55s; job 42 of type resize has run for 55s"},
		"failing": {"2 failing: 23 of 23 tasks (100%) failed in the last 55s; the last: job 64 of type resize: exit status 1\\x1b[31m", "2 dead letters: " + lately},
	}
	queues := map[string]string{
		"empty":   "",
		"lagging": "2 behind: the oldest ready job has waited for 4m00s; 300 jobs are ready, 4 leased",
		"left":    "3 not worked: the oldest ready job has waited for 4m00s; pool work serves the queue, and none is leased",
		"dead":    "2 dead letters: 23 jobs are dead letters",
		"away":    "2 queue away: it cannot be reached for at least 55s: no route to host",
	}
	// All began within three seconds.
	about := func(texts []string) []string {
		for i, s := range texts {
			texts[i] = regexp.MustCompile(`\b5\ds\b`).ReplaceAllString(s, "55s")
		}
		return texts
	}
	text := func(said string) string { _, text, _ := strings.Cut(said, ": "); return text }
	for state, ofPool := range pools {
		for queue, ofQueue := range queues {
			t.Run(state+" and "+queue, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newPage(t, shoalhttp.WithQueue("mails", queueIn(queue)))
					_, end := poolIn(t, h, state)
					for range 27 { // somebody looks
						time.Sleep(2 * time.Second)
						queuesOf(t, h)
					}
					r := rows(t, h)["work"]
					wantPool, wantQueue := slices.Clone(ofPool), []string(nil)
					if ofQueue != "" {
						wantQueue = append(wantQueue, ofQueue)
						if !(state == "failing" && queue == "dead") { // it is said already
							wantPool = append(wantPool, "1 see queue: its queue mails: "+text(ofQueue))
						}
					}
					if len(ofPool) > 0 {
						wantQueue = append(wantQueue, "1 see pool: its pool work: "+text(ofPool[0]))
					}
					if got := about(saidOf(r.Verdicts)); !slices.Equal(got, wantPool) {
						t.Errorf("of the pool: %q\nwant: %q", got, wantPool)
					}
					if got := about(said(queuesOf(t, h)[0])); !slices.Equal(got, wantQueue) {
						t.Errorf("of the queue: %q\nwant: %q", got, wantQueue)
					}
					// The page without scripts has the problems of both, and the same ones.
					rec := httptest.NewRecorder()
					h.ServeHTTP(rec, httptest.NewRequest("GET", "/debug/shoal/", nil))
					strips := slices.Clone(ofPool)
					if ofQueue != "" {
						strips = append(strips, ofQueue)
					}
					page := about([]string{rec.Body.String()})[0]
					if n := strings.Count(page, "</b>: "); n != len(strips) {
						t.Errorf("%d problems on the page without scripts; want %d", n, len(strips))
					}
					for _, s := range strips {
						if !strings.Contains(page, "</b>: "+text(s)) {
							t.Errorf("not on the page without scripts: %s", s)
						}
					}
					end()
				})
			})
		}
	}
}

// TestAPoolOlderThanItsPage: what was before the page is not of the last minute.
func TestAPoolOlderThanItsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPage(t)
		p, end := poolIn(t, h, "failing")
		time.Sleep(time.Hour)
		h = newPage(t, shoalhttp.WithPools(p))
		want := []string{"1 failures before: 23 of 123 tasks (19%) failed since the pool was made, none in the last 1s",
			"1 dead letters: 23 jobs became dead letters of queues that it has served"}
		if got := saidOf(rows(t, h)["work"].Verdicts); !slices.Equal(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
		// The queue knows better: somebody has deleted them.
		if err := h.AddQueue("mails", queueIn("empty")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		queuesOf(t, h)
		if got := saidOf(rows(t, h)["work"].Verdicts); len(got) != 1 || !strings.HasPrefix(got[0], "1 failures before") {
			t.Errorf("%q", got)
		}
		end()
	})
}

// TestATaskThatIsNoJobHangs: the job that hangs for less long is named after it.
func TestATaskThatIsNoJobHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPage(t)
		_, end := poolIn(t, h, "late")
		time.Sleep(24 * time.Second)
		says(t, rows(t, h)["work"], "hanging", 2, "2 of 2 running tasks have run for at least 25s each, the oldest for at least 55s; job 42 of type resize has run for 25s; 99 of 100 tasks take at most 1ms")
		end()
	})
}

// TestAPausedPoolAndItsQueue: nobody works the queue, and the page says why.
func TestAPausedPoolAndItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPage(t, shoalhttp.WithQueue("mails", queueIn("left")))
		p, end := poolIn(t, h, "ok")
		p.Pause()
		for range 10 {
			time.Sleep(2 * time.Second)
			queuesOf(t, h)
		}
		want := []string{"3 not worked: the oldest ready job has waited for 4m00s; pool work serves the queue, and none is leased",
			"1 see pool: its pool work: paused for at least 17s: it takes tasks and starts none"}
		if got := said(queuesOf(t, h)[0]); !slices.Equal(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
		p.Resume()
		end()
	})
}
