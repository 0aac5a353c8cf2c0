package shoalhttp

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/shoal-go/shoal"
)

const (
	usualWorkers, maxWorkers = 100, 10_000
	usualStacks, maxStacks   = 10, 100
	// stacksEvery is how often the process may be stopped for stacks.
	stacksEvery = time.Second
)

func (h *Page) serveWorkers(w http.ResponseWriter, r *http.Request) {
	limit, err := number(r, "limit", usualWorkers, maxWorkers)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t, p := h.poolOf(w, r)
	if t == nil {
		return
	}
	all := slices.SortedStableFunc(p.Workers(), func(a, b shoal.WorkerStats) int {
		if c := cmp.Compare(b.TaskAge, a.TaskAge); c != 0 {
			return c
		}
		return cmp.Compare(a.State, b.State) // by id, then, as they came
	})
	out := Workers{Pool: t.id, Total: len(all), Workers: make([]WorkerRow, 0, min(limit, len(all)))}
	for _, s := range all[:min(limit, len(all))] {
		out.Workers = append(out.Workers, WorkerRow{s.ID, s.State.String(), s.Executed, s.Failed, s.TaskAge.Seconds()})
	}
	writeJSON(w, out)
}

// A stackCache keeps what was found last, so that no client can stop the process again
// and again.
type stackCache struct {
	free  chan struct{} // holds a token while the process is looked at: guards what follows
	at    time.Time
	found Stacks
}

func (h *Page) serveStacks(w http.ResponseWriter, r *http.Request) {
	n, err := number(r, "n", usualStacks, maxStacks)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t, p := h.poolOf(w, r)
	if t == nil {
		return
	}
	found, ok := h.stacks.get(r, t, p)
	if !ok {
		http.Error(w, "shoalhttp: others have asked for stacks; try again", http.StatusTooManyRequests)
		return
	}
	found.Tasks = found.Tasks[:min(n, len(found.Tasks))]
	writeJSON(w, found)
}

// get is what there is of t. It returns false if others have asked for too much.
func (c *stackCache) get(r *http.Request, t *tracked, p *shoal.Pool) (found Stacks, ok bool) {
	tooLong := time.After(3 * stacksEvery)
	select {
	case c.free <- struct{}{}:
		defer func() { <-c.free }()
	case <-tooLong:
		return found, false
	case <-r.Context().Done():
		return found, false
	}
	if c.found.Pool == t.id && time.Since(c.at) < stacksEvery {
		return c.found, true
	}
	if wait := stacksEvery - time.Since(c.at); wait > 0 { // another one has asked
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return found, false
		}
	}
	found = Stacks{Pool: t.id, Tasks: []StackRow{}}
	missing := 0
	tasks := p.OldestTasks(maxFolded)
	for i, task := range tasks {
		if i < maxStacks {
			found.Tasks = append(found.Tasks, StackRow{task.Worker, task.Age.Seconds(), task.Stack})
		}
		if task.Stack == "" {
			missing++
		}
	}
	found.Groups = fold(tasks)
	switch {
	case missing > 0 && missing == len(tasks):
		found.Note = "No stack was found: the tasks have ended meanwhile, or the process has more than 100,000 goroutines."
	case missing > 0:
		found.Note = "Tasks without a stack have ended meanwhile."
	}
	c.at, c.found = time.Now(), found
	return found, true
}
