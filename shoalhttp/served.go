package shoalhttp

import (
	"slices"
	"time"
)

// mostName and mostText are how many bytes of an ID or a type, and of an error, are sent.
const (
	mostName = 100
	mostText = 1 << 10
)

// sourceJob is a job of a durable queue, or nil if there is none.
func sourceJob(id, kind, err string, at time.Time) *SourceJob {
	if at.IsZero() {
		return nil
	}
	return &SourceJob{clip(visible(id), mostName), clip(visible(kind), mostName), unix(at), clip(visible(err), mostText)}
}

func (j *SourceJob) name() string {
	if j.Type == "" {
		return "job " + j.ID
	}
	return "job " + j.ID + " of type " + j.Type
}

// since is how long ago something was with j.
func (j *SourceJob) since(now time.Time) time.Duration {
	return time.Duration((unix(now) - j.At) * float64(time.Second))
}

// oldest is the job that has been in its handler for longest, if that is d at least, or nil.
func (r *PoolRow) oldest(now time.Time, d time.Duration) (j *SourceJob) {
	for _, q := range r.Sources {
		if q.Oldest != nil && (j == nil || q.Oldest.At < j.At) && q.Oldest.since(now) >= d {
			j = q.Oldest
		}
	}
	return j
}

// lastFailure is the job that failed last, if that was in the last d, or nil.
func (r *PoolRow) lastFailure(now time.Time, d time.Duration) (j *SourceJob) {
	for _, q := range r.Sources {
		if q.LastFailure != nil && (j == nil || q.LastFailure.At > j.At) && q.LastFailure.since(now) <= d {
			j = q.LastFailure
		}
	}
	return j
}

// serves reports whether jobs of a queue of that name, as it is shown, run on the pool.
func (r *PoolRow) serves(queue string) bool {
	return r.State != "Closed" && slices.ContainsFunc(r.Sources, func(q SourceRow) bool { return q.Name == queue })
}

// The verdicts of a pool and of a queue that it serves stand on one page. So that one is not said to
// be well beside the other, each has a verdict of what is wrong with the other.

const (
	itsPool  = "see pool"
	itsQueue = "see queue"
)

// has reports whether one of vs is a problem of that label.
func has(vs []Verdict, label string) bool {
	return slices.ContainsFunc(vs, func(v Verdict) bool { return v.Level >= problem && v.Label == label })
}

// ofQueuesLocked adds to r what is wrong with the queues that it serves. known is whether it serves
// any, and all of these are on the page and were measured lately.
func (h *Page) ofQueuesLocked(r *PoolRow, now time.Time) (known bool) {
	h.queuesMu.Lock()
	defer h.queuesMu.Unlock()
	known = len(r.Sources) > 0
	for i, q := range r.Sources {
		if slices.ContainsFunc(r.Sources[:i], func(o SourceRow) bool { return o.Name == q.Name }) {
			continue
		}
		w := h.queueLocked(q.Name)
		if w == nil || !w.current(now) {
			known = false
			continue
		}
		for _, v := range w.row(now, []PoolRow{*r}).Verdicts {
			if v.Level >= problem && !has(r.Verdicts, v.Label) {
				r.Verdicts = append(r.Verdicts, Verdict{Level: worthKnowing, Label: itsQueue, Text: "its queue " + q.Name + ": " + v.Text})
			}
		}
	}
	return known
}

// ofPools adds to q what is wrong with the pools that serve it.
func (q *QueueRow) ofPools(pools []PoolRow) {
	for _, r := range pools {
		for _, v := range r.Verdicts {
			if v.Label != itsQueue && (v.Level >= problem || v.Label == r.State) && !has(q.Verdicts, v.Label) {
				q.Verdicts = append(q.Verdicts, Verdict{Level: worthKnowing, Label: itsPool, Text: "its pool " + r.Name + ": " + v.Text})
				break // it is the worst
			}
		}
	}
}
