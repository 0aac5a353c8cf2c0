package shoalhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

// read decodes what the page has at path, without a server.
func read(t *testing.T, h *shoalhttp.Page, path string, v any) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "http://localhost/debug/shoal/"+path, nil))
	if err := json.Unmarshal(rec.Body.Bytes(), v); err != nil {
		t.Fatalf("%s: %s: %v", path, rec.Body, err)
	}
}

// rows is the rows of the page, by name.
func rows(t *testing.T, h *shoalhttp.Page) map[string]shoalhttp.PoolRow {
	t.Helper()
	var s shoalhttp.Snapshot
	time.Sleep(time.Second) // else it may be that of the last look
	read(t, h, "stats.json", &s)
	m := make(map[string]shoalhttp.PoolRow)
	for _, r := range s.Pools {
		m[r.Name] = r
	}
	return m
}

// says has a verdict of that label, level and text.
func says(t *testing.T, r shoalhttp.PoolRow, label string, level int, text string) {
	t.Helper()
	for _, v := range r.Verdicts {
		if v.Label == label {
			if v.Level != level || v.Text != text {
				t.Errorf("%s: level %d, %q; want %d, %q", r.Name, v.Level, v.Text, level, text)
			}
			return
		}
	}
	t.Errorf("%s is not said to be %q: %+v", r.Name, label, r.Verdicts)
}

// silent has none.
func silent(t *testing.T, r shoalhttp.PoolRow) {
	t.Helper()
	if len(r.Verdicts) > 0 {
		t.Errorf("%s: %+v, want nothing wrong", r.Name, r.Verdicts)
	}
}

func TestVerdictOnFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("a"))
		h := newPage(t, shoalhttp.WithPools(p))
		run := func(failed, others int) {
			for i := range failed + others {
				p.SubmitWait(t.Context(), func(context.Context) error {
					if i < failed {
						return errors.New("no")
					}
					return nil
				})
			}
		}
		silent(t, rows(t, h)["a"])
		time.Sleep(20 * time.Second)
		run(84, 0)
		says(t, rows(t, h)["a"], "failing", 2, "84 of 84 tasks (100%) failed in the last 22s")
		time.Sleep(2 * time.Minute)
		says(t, rows(t, h)["a"], "failures before", 1, "84 of 84 tasks (100%) failed since the pool was made, none in the last minute")
		run(1, 999)
		says(t, rows(t, h)["a"], "failures", 1, "1 of 1,000 tasks (0.1%) failed in the last minute")
		time.Sleep(2 * time.Minute)
		silent(t, rows(t, h)["a"])
	})
}

func TestVerdictOnTasksThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := newPool(t, shoal.WithName("known"), shoal.WithMaxWorkers(4), shoal.WithTiming(shoal.TimingFull))
		fresh := newPool(t, shoal.WithName("fresh"), shoal.WithMaxWorkers(4))
		parent := newPool(t, shoal.WithName("parent"), shoal.WithMaxWorkers(4))
		sub, err := parent.Sub(shoal.WithName("sub"))
		if err != nil {
			t.Fatal(err)
		}
		h := newPage(t, shoalhttp.WithPools(known, fresh, parent))
		for range 100 {
			known.SubmitWait(t.Context(), func(context.Context) error { time.Sleep(time.Millisecond); return nil })
		}
		hold(t, known, 1)
		hold(t, fresh, 2)
		hold(t, sub, 1)
		time.Sleep(8 * time.Second)
		all := rows(t, h)
		for _, name := range []string{"known", "fresh", "parent", "sub"} {
			silent(t, all[name])
		}
		time.Sleep(44 * time.Second)
		all = rows(t, h)
		// The queues are empty, and other workers idle. Nobody has looked since the ninth second.
		says(t, all["known"], "hanging", 2, "1 of 1 running task has run for at least 54s; 99 of 100 tasks take at most 1ms")
		for _, name := range []string{"fresh", "sub"} {
			if v := all[name].Verdicts; len(v) != 1 || v[0].Label != "hanging" || !v[0].Stacks || !strings.HasSuffix(v[0].Text, "; how long tasks usually take was not measured yet") {
				t.Errorf("%s: %+v", name, v)
			}
		}
		// When the second task began was not known before the page looked.
		if v := all["fresh"].Verdicts[0].Text; !strings.HasPrefix(v, "2 of 2 running tasks have run for at least 49s each, the oldest for at least 54s") {
			t.Errorf("%q", v)
		}
		silent(t, all["parent"]) // the task is not its own
		if b := all["parent"].Below; b.Pools != 1 || b.Running != 1 {
			t.Errorf("below the parent: %+v", b)
		}
		runtime.KeepAlive(sub)
	})
}

func TestVerdictOnAStallByTasksOfSubPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("parent"), shoal.WithMaxWorkers(2))
		h := newPage(t, shoalhttp.WithPools(p))
		var subs []*shoal.Pool
		for range 2 {
			sub, err := p.Sub()
			if err != nil {
				t.Fatal(err)
			}
			hold(t, sub, 1)
			subs = append(subs, sub)
		}
		for _, sub := range subs { // now that no worker is free
			sub.Submit(func() {})
		}
		rows(t, h)
		time.Sleep(time.Minute)
		says(t, rows(t, h)["parent"], "stalled", 3, "all 2 workers busy, all in tasks of sub-pools, 2 tasks queued in sub-pools, nothing finished for at least 1m02s")
	})
}

func TestVerdictOnAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(3))
		h := newPage(t, shoalhttp.WithPools(p))
		release := hold(t, p, 2)
		for range 3 {
			p.Submit(func() {})
		}
		time.Sleep(49 * time.Second)
		r := rows(t, h)["a"] // nobody has looked before
		says(t, r, "stalled", 3, "all 2 workers busy, 3 tasks queued, nothing finished for at least 45s")
		says(t, r, "queue full", 2, "its queue of 3 is full for at least 45s")
		if r.Verdicts[0].Label != "stalled" || !r.Verdicts[0].Stacks {
			t.Errorf("the worst comes not first: %+v", r.Verdicts)
		}
		release()
		p.Wait()
		silent(t, rows(t, h)["a"])
		p.Pause()
		p.Submit(func() {})
		time.Sleep(time.Minute)
		says(t, rows(t, h)["a"], "Paused", 2, "paused for at least 57s: 1 task waits for somebody to resume it")
		p.Resume()
	})
}

func TestVerdictOnWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))
		h := newPage(t, shoalhttp.WithPools(p))
		release := hold(t, p, 1)
		for range 1234 {
			if err := p.Submit(func() {}); !errors.Is(err, shoal.ErrQueueFull) {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		release()
		says(t, rows(t, h)["a"], "rejecting", 2, "1,234 tasks were rejected in the last 6s")
		time.Sleep(61 * time.Second)
		time.Sleep(5 * time.Second)
		silent(t, rows(t, h)["a"])
	})
}

func TestThePastIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("a"), shoal.WithTiming(shoal.TimingFull))
		idle := newPool(t, shoal.WithName("idle"))
		h := newPage(t, shoalhttp.WithPools(p, idle))
		begin := time.Now()
		for range 20 { // minutes in which nobody looks: 2 tasks a second, of half a second
			for range 120 {
				p.SubmitWait(t.Context(), func(context.Context) error { time.Sleep(500 * time.Millisecond); return nil })
			}
		}
		var s shoalhttp.Snapshot
		read(t, h, "stats.json", &s)
		var past shoalhttp.History
		read(t, h, "history.json?pool=1", &past)
		n := len(past.Points)
		if n != 120 {
			t.Fatalf("%d points, want those of ten minutes", n)
		}
		for i, q := range past.Points {
			at := time.UnixMilli(int64(1000 * q.Time))
			if q.Interval < 4.9 || q.Interval > 5.1 || q.CompleteRate < 1.5 || q.CompleteRate > 2.5 || q.RunP50 < 0.49 || q.RunP99 > 0.55 || at.Before(begin.Add(9*time.Minute)) {
				t.Fatalf("point %d: %+v", i, q)
			}
		}
		read(t, h, "history.json?pool=2", &past)
		if len(past.Points) != 120 || past.Points[7].CompleteRate != 0 || past.Points[7].MaxWorkers == 0 {
			t.Errorf("%d points of the idle pool, such as %+v", len(past.Points), past.Points[7])
		}
		if busy, still := shoalhttp.Kept(h, 1), shoalhttp.Kept(h, 2); busy > 121 || still != 1 {
			t.Errorf("%d points are kept of a busy pool and %d of an idle one, want 121 and 1", busy, still)
		}
	})
}

func TestNobodyLooksAtPoolsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newPool(t, shoal.WithName("a")), newPool(t, shoal.WithName("b"))
		h := newPage(t)
		looks := func(want bool, when string) {
			t.Helper()
			if got := shoalhttp.Looks(h); got != want {
				t.Errorf("%s: the page looks at its pools: %v, want %v", when, got, want)
			}
		}
		looks(false, "without pools")
		h.Add(a, b)
		looks(true, "with pools")
		h.Remove(a)
		looks(true, "with one left")
		h.Remove(b)
		looks(false, "after Remove")
		h.Add(a)
		looks(true, "after Add")
		a.Close()
		time.Sleep(6 * time.Second)
		looks(false, "after Close")
		if r := rows(t, h)["a"]; r.State != "Closed" {
			t.Errorf("%+v", r)
		}
		// The bubble would not end if the page had left a goroutine.
	})
}

func TestPageAndPoolsAreCollected(t *testing.T) {
	quiet(t)
	gone := func(what string, v *atomic.Bool) {
		t.Helper()
		waitUntil(t, what, func() bool { runtime.GC(); return v.Load() })
	}
	note := func(v *atomic.Bool) { v.Store(true) }
	var page, removed, sub atomic.Bool
	parent := newPool(t, shoal.WithName("parent"))
	h := newPage(t, shoalhttp.WithPools(parent))
	func() {
		s, err := parent.Sub(shoal.WithName("sub"))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := rows(t, h)["sub"]; !ok {
			t.Fatal("the sub-pool is not shown")
		}
		runtime.AddCleanup(s, note, &sub)
		p := shoal.Must(shoal.New(shoal.WithName("p")))
		if err := h.Add(p); err != nil {
			t.Fatal(err)
		}
		runtime.AddCleanup(p, note, &removed)
		shoalhttp.Take(h)
		p.Close()
		h.Remove(p)
		runtime.AddCleanup(h, note, &page)
	}()
	gone("a sub-pool that was dropped is collected, though the page showed it", &sub)
	gone("a pool that was removed is collected", &removed)
	if _, ok := rows(t, h)["sub"]; ok {
		t.Error("it is shown still")
	}
	h = nil
	gone("a page that was dropped is collected, with the timer set", &page)
}

func TestVerdictsOnSubPoolsThatWait(t *testing.T) {
	for name, c := range map[string]struct {
		opts           []shoal.Option // of leaf
		do             func(t *testing.T, root, leaf *shoal.Pool)
		label          string
		level          int
		text, ofParent string
	}{
		"a pool far above is busy": {
			do:    func(t *testing.T, root, leaf *shoal.Pool) { hold(t, root, 1); leaf.Submit(func() {}) },
			label: "waits", level: 1, text: "1 task waits for the workers of root, which are all busy",
		},
		"at capacity 0": {
			opts:  []shoal.Option{shoal.WithQueueCapacity(0)},
			do:    func(t *testing.T, root, leaf *shoal.Pool) { hold(t, root, 1); leaf.Submit(func() {}) },
			label: "waits", level: 1, text: "1 task waits for the workers of root, which are all busy",
		},
		"a pool far above is paused": {
			do:    func(t *testing.T, root, leaf *shoal.Pool) { root.Pause(); leaf.Submit(func() {}) },
			label: "Paused", level: 2, text: "1 task waits for somebody to resume root, which is paused for at least 8s",
			ofParent: "paused for at least 8s: 1 task waits for somebody to resume it",
		},
		"a pool far above is paused, at capacity 0": {
			opts:  []shoal.Option{shoal.WithQueueCapacity(0)},
			do:    func(t *testing.T, root, leaf *shoal.Pool) { root.Pause(); leaf.Submit(func() {}) },
			label: "Paused", level: 2, text: "1 task waits for somebody to resume root, which is paused for at least 8s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := newPool(t, shoal.WithName("root"), shoal.WithMaxWorkers(1))
				mid, err := root.Sub(shoal.WithName("mid"))
				if err != nil {
					t.Fatal(err)
				}
				leaf, err := mid.Sub(append(c.opts, shoal.WithName("leaf"))...)
				if err != nil {
					t.Fatal(err)
				}
				h := newPage(t, shoalhttp.WithPools(root))
				c.do(t, root, leaf)
				time.Sleep(12 * time.Second)
				all := rows(t, h)
				says(t, all["leaf"], c.label, c.level, c.text)
				silent(t, all["mid"])
				if c.ofParent != "" {
					says(t, all["root"], c.label, c.level, c.ofParent)
				}
				root.Resume()
			})
		})
	}
}

func TestVerdictOnAPausedPoolWithoutAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0))
		h := newPage(t, shoalhttp.WithPools(p))
		p.Pause()
		p.Submit(func() {})
		says(t, rows(t, h)["a"], "Paused", 2, "paused: 1 task waits for somebody to resume it")
		go p.Submit(func() {})
		says(t, rows(t, h)["a"], "Paused", 2, "paused for at least 1s: 2 tasks wait for somebody to resume it")
		p.Resume()
	})
}

// Tasks that their submitters or other tasks run do not wait.
func TestTasksThatNoWorkerRunsDoNotWait(t *testing.T) {
	for name, submit := range map[string]func(p *shoal.Pool, task func()){
		"by their submitters": func(p *shoal.Pool, task func()) { p.Submit(func() { task() }); p.Submit(func() { task() }) },
		"by another task": func(p *shoal.Pool, task func()) {
			p.SubmitWait(context.Background(), func(ctx context.Context) error {
				return p.SubmitWait(ctx, func(context.Context) error { task(); return nil })
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))
				h := newPage(t, shoalhttp.WithPools(p))
				end := make(chan struct{})
				go submit(p, func() { <-end })
				synctest.Wait()
				p.Pause()
				row := rows(t, h)["a"]
				if row.InFlight != 2 {
					t.Errorf("%d tasks in flight, want 2", row.InFlight)
				}
				says(t, row, "Paused", 1, "paused: it takes tasks and starts none")
				p.Resume()
				close(end)
			})
		})
	}
}

// A task that its submitter runs is not one more that waits.
func TestWaitingBesideATaskOfItsSubmitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := newPool(t, shoal.WithName("root"), shoal.WithMaxWorkers(1))
		sub, err := root.Sub(shoal.WithName("sub"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))
		if err != nil {
			t.Fatal(err)
		}
		h := newPage(t, shoalhttp.WithPools(root))
		hold(t, root, 1)
		end := make(chan struct{})
		sub.Submit(func() {})
		go sub.Submit(func() { <-end })
		synctest.Wait()
		says(t, rows(t, h)["sub"], "waits", 1, "1 task waits for the workers of root, which are all busy")
		close(end)
	})
}

// Tasks that run on goroutines of their own do not wait.
func TestSpawnedTasksDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		h := newPage(t, shoalhttp.WithPools(p))
		hold(t, p, 2)
		p.Pause()
		says(t, rows(t, h)["a"], "Paused", 1, "paused: it takes tasks and starts none")
		p.Resume()
	})
}

// What was seen for less than a second is not said to be older.
func TestVerdictOnWhatHasJustBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1))
		h := newPage(t, shoalhttp.WithPools(p))
		hold(t, p, 1)
		p.Submit(func() {})
		says(t, rows(t, h)["a"], "queue full", 2, "its queue of 1 is full")
		says(t, rows(t, h)["a"], "queue full", 2, "its queue of 1 is full for at least 1s")
	})
}
