package shoalnats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/shoal-go/shoal/jobs"
)

var (
	_ jobs.DeadStore = (*Queue)(nil)
	_ jobs.Depther   = (*Queue)(nil)
)

// DeadLetters implements [jobs.DeadStore]. Each dead letter of the queue after f.After, selected
// or not, costs one round trip, until there are f.Limit. With f.Newest, each gap that retried and
// deleted ones have left costs some more: the logarithm of its length. Ages are measured by the clock of this machine.
func (q *Queue) DeadLetters(ctx context.Context, f jobs.DeadFilter) (all []jobs.DeadLetter, err error) {
	_, err = q.eachDead(ctx, f, func(_ jetstream.Stream, _ *jetstream.RawStreamMsg, l jobs.DeadLetter) (bool, error) {
		all = append(all, l)
		return true, nil
	})
	return all, err
}

// RetryDead implements [jobs.DeadStore]. Each dead letter of the queue, selected or not, costs
// one round trip, and two more if it is retried. A job is published before its dead letter
// is deleted. So a crash between the two leaves both; if the call is made again within the
// time of [WithDuplicates], the job still runs once.
//
// A dead letter may lack the headers or the payload of its job, because a message with them
// could not be sent; its reason says so if there was room. It is not retried, and RetryDead
// returns an error that names it.
func (q *Queue) RetryDead(ctx context.Context, f jobs.DeadFilter) (int, error) {
	var cut error
	n, err := q.eachDead(ctx, f, func(s jetstream.Stream, m *jetstream.RawStreamMsg, l jobs.DeadLetter) (bool, error) {
		if m.Header.Get(cutHeader) != "" {
			if cut == nil {
				cut = fmt.Errorf("shoalnats: queue %s: dead letter %q lacks a part of its job, and is not retried", q.name, l.ID)
			}
			return false, nil
		}
		j := nats.NewMsg(q.now())
		j.Data = m.Data
		for k, v := range l.Header {
			j.Header[k] = []string{v}
		}
		j.Header[idHeader] = []string{l.ID}
		j.Header[nats.MsgIdHdr] = []string{fmt.Sprintf("%s %d %s", l.ID, m.Sequence, "retry")} // another than that of the job
		if _, err := q.js.PublishMsg(ctx, j); err != nil {
			return false, why(err)
		}
		return q.removeDead(ctx, s, m.Sequence)
	})
	return n, errors.Join(err, cut)
}

// DeleteDead implements [jobs.DeadStore]. Each dead letter of the queue, selected or not,
// costs one round trip, and one more if it is deleted.
func (q *Queue) DeleteDead(ctx context.Context, f jobs.DeadFilter) (int, error) {
	return q.eachDead(ctx, f, func(s jetstream.Stream, m *jetstream.RawStreamMsg, _ jobs.DeadLetter) (bool, error) {
		return q.removeDead(ctx, s, m.Sequence)
	})
}

// removeDead reports whether it has deleted a dead letter that was there.
func (q *Queue) removeDead(ctx context.Context, s jetstream.Stream, seq uint64) (bool, error) {
	err := s.DeleteMsg(ctx, seq)
	if err == nil {
		return true, nil
	}
	if _, e := s.GetMsg(ctx, seq); errors.Is(e, jetstream.ErrMsgNotFound) {
		return false, nil // somebody else has
	}
	return false, err
}

// eachDead calls do for the dead letters that f selects, in its order, and returns for how
// many it returned true.
func (q *Queue) eachDead(ctx context.Context, f jobs.DeadFilter, do func(s jetstream.Stream, m *jetstream.RawStreamMsg, l jobs.DeadLetter) (bool, error)) (n int, err error) {
	if err := errors.Join(ended(ctx), f.Check()); err != nil {
		return 0, err
	}
	after := uint64(0)
	if f.After != "" {
		after, err = strconv.ParseUint(f.After, 10, 64)
		if err != nil || after == 0 || after == math.MaxUint64 || strconv.FormatUint(after, 10) != f.After {
			return 0, f.PlaceError()
		}
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("shoalnats: queue %s: dead letters: %w", q.name, err)
		}
	}()
	s, err := q.js.Stream(ctx, q.dead())
	if err != nil {
		return 0, err
	}
	now := time.Now()
	first, last := max(1, s.CachedInfo().State.FirstSeq), s.CachedInfo().State.LastSeq
	switch {
	case after > 0 && f.Newest:
		last = min(last, after-1)
	case after > 0:
		first = max(first, after+1)
	}
	for selected := 0; first <= last && (f.Limit == 0 || selected < f.Limit); {
		var m *jetstream.RawStreamMsg
		if f.Newest {
			if m, err = q.latest(ctx, s, first, last); err == nil {
				last = m.Sequence - 1
			}
		} else if m, err = s.GetMsg(ctx, first, jetstream.WithGetMsgSubject(q.buried())); err == nil { // this one or the next
			first = m.Sequence + 1
		}
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return n, nil
		case err != nil:
			return n, err
		case m.Sequence > last && !f.Newest: // it was given up since
			return n, nil
		}
		l := letterOf(m)
		if !f.Match(l, now) {
			if f.Newest && f.Within > 0 && l.At.Before(now.Add(-f.Within)) {
				return n, nil // so are those before it
			}
			continue
		}
		selected++
		done, err := do(s, m, l)
		if err != nil {
			return n, err
		}
		if done {
			n++
		}
	}
	return n, nil
}

// latest returns the last dead letter from first to last, or ErrMsgNotFound. The server looks
// forwards only. So latest looks from further and further back until there is one, and halves what
// is left behind that.
func (q *Queue) latest(ctx context.Context, s jetstream.Stream, first, last uint64) (found *jetstream.RawStreamMsg, err error) {
	for step := uint64(1); first <= last; {
		back := step - 1
		if found != nil { // what is left is shorter than the last step: halve it
			back = (last - first) / 2
		}
		from := last - min(back, last-first)
		m, err := s.GetMsg(ctx, from, jetstream.WithGetMsgSubject(q.buried())) // this one or the next
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound), err == nil && m.Sequence > last:
			last, step = from-1, 2*step // there is none from there on
		case err != nil:
			return nil, err
		default:
			found, first = m, m.Sequence+1
		}
	}
	if found == nil {
		return nil, jetstream.ErrMsgNotFound
	}
	return found, nil
}

// letterOf is the dead letter that a message is.
func letterOf(m *jetstream.RawStreamMsg) jobs.DeadLetter {
	l := jobs.DeadLetter{Data: m.Data, At: m.Time, ID: m.Header.Get(idHeader), Place: strconv.FormatUint(m.Sequence, 10)}
	l.Attempt, _ = strconv.Atoi(m.Header.Get(attemptHeader))
	if json.Unmarshal([]byte(m.Header.Get(reasonHeader)), &l.Reason) != nil {
		l.Reason = m.Header.Get(reasonHeader)
	}
	for k, v := range m.Header {
		if !ours(k) {
			if l.Header == nil {
				l.Header = make(jobs.Header)
			}
			l.Header[k] = v[0]
		}
	}
	return l
}

// Depth implements [jobs.Depther]. It costs up to four round trips, whatever the queue holds.
// The server does not tell apart the jobs that are leased, those whose lease has ended and
// those that were given back: all of them count as leased until they are leased again, and
// Oldest is the age of the oldest job that was never leased.
func (q *Queue) Depth(ctx context.Context) (d jobs.Depth, err error) {
	defer func() {
		if err != nil {
			d, err = jobs.Depth{}, fmt.Errorf("shoalnats: queue %s: depth: %w", q.name, err)
		}
	}()
	if err := ended(ctx); err != nil {
		return d, err
	}
	dead, err := q.js.Stream(ctx, q.dead())
	if err != nil {
		return d, err
	}
	d.Dead = int64(dead.CachedInfo().State.Msgs)
	w, err := q.js.Consumer(ctx, q.stream(), consumerName)
	if err != nil {
		return d, err
	}
	info := w.CachedInfo()
	d.Ready, d.Leased = int64(info.NumPending), int64(info.NumAckPending)
	work, err := q.js.Stream(ctx, q.stream())
	if err != nil {
		return d, err
	}
	d.Delayed = max(0, int64(work.CachedInfo().State.Msgs)-d.Ready-d.Leased)
	if d.Ready > 0 {
		m, err := work.GetMsg(ctx, info.Delivered.Stream+1, jetstream.WithGetMsgSubject(q.now()))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound): // it has been leased since
		case err != nil:
			return d, err
		default:
			d.Oldest = max(0, time.Since(m.Time))
		}
	}
	return d, nil
}
