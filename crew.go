package shoal

import (
	"context"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A crew is what the loops that are nested in one have in common: those who work on them.
type crew struct {
	p       *Pool
	root    *loop     // the outermost
	limit   int       // participants
	fails   sy.Uint64 // loops that have failed
	waiting sy.Int64  // callers that wait
	calls   sy.Bool   // a hand may be called; written under mu
	full    sy.Bool   // when one was called last, the pool had no room

	mu       sy.Mutex // guards what follows
	hands    int      // called, and not resolved
	called   *hand    // the one of them that has not begun
	accepted bool     // that one was, by the pool
	over     bool     // the outermost loop is
	none     sy.Event // set when there are no hands any more; made by who waits for that
}

// A hand is a task of the pool that takes part in the loops of a crew.
type hand struct {
	call
	crew *crew
	err  error // the first one of what it ran
}

// callHand has the pool run one more hand, if there is room for it.
func (c *crew) callHand() {
	c.mu.Lock()
	if c.over || c.called != nil || c.hands+1 >= c.limit {
		c.mu.Unlock()
		return
	}
	h := &hand{crew: c}
	h.body, h.pool = h, c.p
	c.hands++
	c.called = h
	c.calls.Store(false)
	c.mu.Unlock()
	accepted := c.p.offer(&h.call)
	c.full.Store(!accepted)
	if !accepted {
		c.gone(h)
		return
	}
	c.mu.Lock()
	c.accepted = c.called == h
	late := c.over && c.accepted
	c.mu.Unlock()
	if late {
		c.p.withdraw(&h.call, context.Canceled)
	}
}

// begunLocked notes that h does not wait in the queue any more.
func (c *crew) begunLocked(h *hand) {
	if c.called == h {
		c.called, c.accepted = nil, false
	}
	c.calls.Store(!c.over && c.called == nil && c.hands+1 < c.limit)
}

// gone counts h out.
func (c *crew) gone(h *hand) {
	c.mu.Lock()
	c.hands--
	c.begunLocked(h)
	last := c.hands == 0 && !c.none.IsZero()
	c.mu.Unlock()
	if last {
		c.none.Set()
	}
}

// end keeps more hands from coming, and waits for those that have found nothing.
func (c *crew) end() {
	c.mu.Lock()
	c.over = true
	c.calls.Store(false)
	h, accepted := c.called, c.accepted
	c.mu.Unlock()
	if accepted {
		c.p.withdraw(&h.call, context.Canceled)
	}
	c.mu.Lock()
	wait := c.hands > 0
	if wait {
		c.none = sy.MakeEvent()
	}
	c.mu.Unlock()
	if wait {
		sy.Reach("wait for a hand")
		c.none.Wait()
	}
}

// run takes part where there is something to be had, from the outermost loop down.
func (h *hand) run() error {
	c := h.crew
	c.mu.Lock()
	c.begunLocked(h)
	c.mu.Unlock()
	for s := c.root.find(&h.call); s != nil; s = c.root.find(&h.call) {
		c.callMore()
		s.join()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.err
}

func (h *hand) refused() error         { return nil }
func (h *hand) outer() context.Context { return h.crew.root.parent }

func (h *hand) end(cause error) {
	if cause != context.Canceled { // else it has returned
		h.crew.root.fail(ErrClosed)
	}
}

func (h *hand) resolve(error) {
	h.crew.gone(h)
	h.crew.callMore()
}

// callMore calls a hand if there is something for it: see R3.
func (c *crew) callMore() {
	if c.calls.Load() && c.root.canJoin() {
		c.callHand()
	}
}

// offer puts c into the queue if there is room. It does not wait, is not counted as rejected
// if there is none, and does not follow the pool's policy: c is worth that only where a
// worker is free. (TrySubmit counts, and what it has accepted cannot be withdrawn.)
func (p *Pool) offer(c *call) bool {
	if p.pushCall(c) {
		return true
	}
	p.mu.Lock()
	if p.phase != phaseOpen || !p.room.empty() || !p.admitLocked(queue.Record(c)) {
		p.mu.Unlock()
		return false
	}
	p.unlockPushed(false)
	return true
}
