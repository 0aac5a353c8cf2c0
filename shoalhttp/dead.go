package shoalhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

const (
	mostDead = 100     // dead letters that are sent at once
	mostData = 4 << 10 // bytes of a payload
	// deadFor is for how long a queue may list, retry or delete dead letters.
	deadFor = 20 * time.Second
)

// A deadCommand is the body of a request about dead letters.
type deadCommand struct {
	Queue  string `json:"queue"`
	Action string `json:"action"` // list, retry or delete
	ID     string `json:"id"`     // of one; "" for those of any ID
	Type   string `json:"type"`   // "" for those of any type
	Older  string `json:"older"`  // for those given up at least so long ago; "" for all
	Newer  string `json:"newer"`  // for those given up at most so long ago; "" for all
	After  string `json:"after"`  // for list: it goes on after the letter of that place
	All    bool   `json:"all"`    // for retry and delete: it is meant that all these are ""
}

// filter is the filter that c asks for.
func (c *deadCommand) filter() (f jobs.DeadFilter, err error) {
	f.Type = c.Type
	if c.ID != "" {
		f.IDs = []string{c.ID}
	}
	age := func(name, s string) (d time.Duration) {
		if s == "" {
			return 0
		}
		d, e := time.ParseDuration(s)
		if n, found := strings.CutSuffix(s, "d"); found { // days
			days, e2 := strconv.ParseUint(n, 10, 16)
			d, e = time.Duration(days)*24*time.Hour, e2
		}
		if e != nil || d <= 0 {
			err = errors.Join(err, fmt.Errorf("%s than %q: want a time such as 90s, 10m, 24h or 7d", name, s))
		}
		return d
	}
	f.Age, f.Within = age("older", c.Older), age("newer", c.Newer)
	return f, err
}

// deadLetters is the answer to list.
type deadLetters struct {
	Letters []deadRow `json:"letters"`        // the last one first
	More    bool      `json:"more"`           // there are more
	Next    string    `json:"next,omitempty"` // if so, what After is to be for them
}

// A deadRow is one dead letter. Its texts are as they are in the queue.
type deadRow struct {
	ID      string   `json:"id"`
	Type    string   `json:"type"`
	Attempt int      `json:"attempt"`
	At      float64  `json:"at"` // in seconds since 1970
	Reason  string   `json:"reason"`
	Output  string   `json:"output"`
	Header  []string `json:"header"` // other than the type
	Data    string   `json:"data"`   // its beginning
	Size    int      `json:"size"`   // of all data
}

// dead serves such a request.
func (h *Page) dead(w http.ResponseWriter, r *http.Request) {
	var c deadCommand
	if !h.commanded(w, r, &c) {
		return
	}
	h.queuesMu.Lock()
	q := h.queueLocked(c.Queue)
	h.queuesMu.Unlock()
	if q == nil {
		refuse(w, http.StatusNotFound, "queue %q: there is no such queue; queues.json lists them", c.Queue)
		return
	}
	store, ok := q.q.(jobs.DeadStore)
	if !ok {
		refuse(w, http.StatusNotFound, "queue %q keeps no dead letters that can be read", c.Queue)
		return
	}
	f, err := c.filter()
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadFor)
	defer cancel()
	failed := func(err error, n int) {
		if ctx.Err() == context.DeadlineExceeded {
			err = fmt.Errorf("not done within %v", deadFor)
		}
		if n > 0 {
			err = fmt.Errorf("%s of %s only: %w", c.Action, some(n, "job", "jobs"), err)
		}
		status := http.StatusBadGateway
		if errors.Is(err, jobs.ErrConfig) {
			status = http.StatusBadRequest
		}
		refuse(w, status, "queue %q: %v", c.Queue, err)
	}
	act := store.RetryDead
	switch c.Action {
	case "list":
		f.Limit, f.Newest, f.After = mostDead+1, true, c.After
		all, err := store.DeadLetters(ctx, f)
		if err != nil {
			failed(err, 0)
			return
		}
		writeJSON(w, lettersOf(all))
		return
	case "retry":
	case "delete":
		act = store.DeleteDead
	default:
		refuse(w, http.StatusBadRequest, "action %q: want list, retry or delete", c.Action)
		return
	}
	if c.ID+c.Type+c.Older+c.Newer == "" && !c.All {
		refuse(w, http.StatusBadRequest, `%s: want an id or a type or an age, or "all": true`, c.Action)
		return
	}
	n, err := act(ctx, f)
	q.again()
	if n > 0 || err == nil {
		slog.Info("shoalhttp: a viewer of the page changed dead letters", "queue", q.name, "action", c.Action, "id", c.ID, "type", c.Type, "older", c.Older, "newer", c.Newer, "jobs", n, "by", r.RemoteAddr)
	}
	if err != nil {
		failed(err, n)
		return
	}
	writeJSON(w, map[string]int{"jobs": n})
}

func lettersOf(all []jobs.DeadLetter) deadLetters {
	out := deadLetters{Letters: []deadRow{}, More: len(all) > mostDead}
	if out.More {
		all = all[:mostDead]
		out.Next = all[mostDead-1].Place
	}
	for _, l := range all {
		row := deadRow{ID: l.ID, Type: l.Type(), Attempt: l.Attempt, At: unix(l.At), Header: []string{}, Size: len(l.Data)}
		row.Reason, row.Output = l.Split()
		for _, k := range slices.Sorted(maps.Keys(l.Header)) {
			if k != jobs.TypeHeader {
				row.Header = append(row.Header, k+": "+l.Header[k])
			}
		}
		row.Data = strings.ToValidUTF8(string(l.Data[:min(len(l.Data), mostData)]), "\uFFFD")
		out.Letters = append(out.Letters, row)
	}
	return out
}
