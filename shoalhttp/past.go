package shoalhttp

import (
	"net/http"
	"slices"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// The page keeps what its pools did in the last ten minutes, whether somebody looks or not: one
// point every five seconds. A pool in which nothing changes keeps one point in all, a busy one
// about 32 kB.
const (
	pointEvery = 5 * time.Second
	maxPoints  = int(10 * time.Minute / pointEvery)
	// maxPasts is how many pools have ten minutes. The others have what the verdicts need.
	maxPasts  = 2000
	fewPoints = int(time.Minute/pointEvery) + 1
)

// A point is what is kept of one look at a pool.
type point struct {
	tick int // the number of the look; nothing changed until the next point

	submitted, completed, failed, rejected, dropped, stalls, slow uint64
	lost                                                          losses

	queued, running, idle, limit int32
	below                        float32   // tasks per second that sub-pools ended
	wait, run                    quantiles // since the point before
}

// quantiles are times in seconds, and 0 if none was measured.
type quantiles struct{ p50, p99 float32 }

func quantilesOf(h shoal.Histogram) quantiles {
	if h.Count == 0 {
		return quantiles{}
	}
	at := func(q float64) float32 { return max(1e-9, float32(h.Quantile(q).Seconds())) }
	return quantiles{at(0.5), at(0.99)}
}

func pointOf(s shoal.Stats) point {
	return point{
		submitted: s.Submitted, completed: s.Completed, failed: s.Failed, rejected: s.Rejected, dropped: s.Dropped,
		stalls: s.Stalls, slow: s.SlowTasks,
		queued: int32(min(s.Queued, 1<<31-1)), running: int32(s.Running), idle: int32(s.Idle), limit: int32(s.MaxWorkers),
	}
}

// firstPoint is a point of now of a pool that may be older than the page.
func firstPoint(p *shoal.Pool) point {
	n := pointOf(p.Stats())
	n.lost = lossesOf(p)
	return n
}

// losses are the jobs of durable queues that became dead letters on a pool, and the runs of jobs that
// exceeded their time limit. They stay when a call of [jobs.Serve] ends.
type losses struct{ dead, timedOut uint64 }

func lossesOf(p *shoal.Pool) losses {
	sum, _ := jobs.Total(p)
	return losses{sum.Dead, sum.TimedOut}
}

// A past is the history of one pool.
type past struct {
	born   point // when the page saw it first
	bornAt time.Time
	points []point
	stats  shoal.Stats // at the last point
}

func (p *past) begin(at time.Time, born point) { p.bornAt, p.born = at, born }

// The ticks of a page are the times of its points, which all pools share.
type ticks struct {
	first int         // the number of times[0]
	times []time.Time // the last ones
}

// noteLocked adds a point to the past of all pools, if one is due.
func (h *Page) noteLocked(all []*tracked) {
	k := &h.ticks
	if n := len(k.times); n > 0 && h.sample.at.Sub(k.times[n-1]) < pointEvery-every/2 {
		return
	}
	k.times = append(k.times, h.sample.at)
	if len(k.times) > maxPoints+1 { // the rates of the first point are of the time since the one before
		k.times = slices.Delete(k.times, 0, 1)
		k.first++
	}
	now := k.first + len(k.times) - 1
	for i, t := range all {
		next := pointOf(t.stats)
		next.lost = t.lost
		next.below = float32(t.row.Below.CompleteRate)
		next.wait = quantilesOf(t.stats.WaitTime.Since(t.past.stats.WaitTime))
		next.run = quantilesOf(t.stats.RunTime.Since(t.past.stats.RunTime))
		next.tick = now
		keep := maxPoints
		if i >= maxPasts {
			keep = fewPoints
		}
		t.past.add(next, now-keep)
		t.past.stats = t.stats
	}
}

// add adds a point. Of those before tick oldest it keeps the last, which says how it was then.
func (p *past) add(next point, oldest int) {
	if n := len(p.points); n > 0 {
		last := p.points[n-1]
		last.tick = next.tick
		if last == next {
			return
		}
	}
	p.points = append(p.points, next)
	drop := 0
	for drop+1 < len(p.points) && p.points[drop+1].tick <= oldest {
		drop++
	}
	p.points = slices.Delete(p.points, 0, drop)
}

// at is how it was at a tick; it returns false if it was not seen before that.
func (p *past) at(tick int) (point, bool) {
	for i := len(p.points) - 1; i >= 0; i-- {
		if p.points[i].tick <= tick {
			return p.points[i], true
		}
	}
	return point{}, false
}

// ago is how the pool was a time d before now, or when it was seen first, and how long before now
// that was.
func (h *Page) agoLocked(t *tracked, now time.Time, d time.Duration) (point, time.Duration) {
	if now.Sub(t.past.bornAt) <= d {
		return t.past.born, now.Sub(t.past.bornAt)
	}
	for i := len(h.ticks.times) - 1; i >= 0; i-- {
		if at := h.ticks.times[i]; now.Sub(at) >= d {
			if was, ok := t.past.at(h.ticks.first + i); ok {
				return was, now.Sub(at)
			}
			break
		}
	}
	return t.past.born, now.Sub(t.past.bornAt)
}

// historyLocked is the past of t as it is sent.
func (h *Page) historyLocked(t *tracked) History {
	out := History{Pool: t.id, Points: []HistoryPoint{}}
	was, at := t.past.born, t.past.bornAt
	for i, now := range h.ticks.times {
		is, ok := t.past.at(h.ticks.first + i)
		if !ok || !now.After(at) { // it was not seen yet
			continue
		}
		if at == t.past.bornAt && now.Sub(at) > 2*pointEvery { // the points before this one were dropped
			was, at = is, now
			continue
		}
		measured := is.tick == h.ticks.first+i // else nothing has changed since, so nothing ended
		span := now.Sub(at).Seconds()
		rate := func(is, was uint64) float64 { return float64(is-min(was, is)) / span }
		p := HistoryPoint{
			Time: float64(now.UnixMilli()) / 1000, Interval: span,
			SubmitRate: rate(is.submitted, was.submitted), CompleteRate: rate(is.completed, was.completed),
			FailRate: rate(is.failed, was.failed), RejectRate: rate(is.rejected, was.rejected), DropRate: rate(is.dropped, was.dropped),
			BelowRate: float64(is.below),
			Queued:    int(is.queued), Running: int(is.running), Idle: int(is.idle), MaxWorkers: int(is.limit),
		}
		if measured {
			p.WaitP50, p.WaitP99 = float64(is.wait.p50), float64(is.wait.p99)
			p.RunP50, p.RunP99 = float64(is.run.p50), float64(is.run.p99)
		}
		out.Points = append(out.Points, p)
		was, at = is, now
	}
	return out
}

func (h *Page) serveHistory(w http.ResponseWriter, r *http.Request) {
	t, _ := h.poolOf(w, r)
	if t == nil {
		return
	}
	h.mu.Lock()
	out := h.historyLocked(t)
	h.mu.Unlock()
	writeJSON(w, out)
}
