package explore

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
)

// maxThreads bounds the threads of one run, those that have ended included.
const maxThreads = 16

// A clock has, for each thread, the last of its events that came before.
type clock [maxThreads]int16

func (c *clock) join(d *clock) {
	for i, v := range d {
		c[i] = max(c[i], v)
	}
}

// none is the clock before all events.
var none = func() (c clock) {
	for i := range c {
		c[i] = -1
	}
	return c
}()

// A thread is a coroutine of the model.
type thread struct {
	id    int
	name  string
	run   *run
	body  func()
	co    *coro
	next  op    // what it does when it goes on
	clock clock // as of its last event
	ended bool
	kill  bool // must end without doing anything more
	timer bool // waits for a time that need not come
	asked bool // was started by Go
}

// A coro runs one thread after the other.
type coro struct {
	t       *thread
	resume  func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	retired bool // ended by Goexit: cannot run another thread
}

func newCoro() *coro {
	c := new(coro)
	c.resume, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for {
			c.runThread()
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// runThread runs c.t to its end, which may be a panic or runtime.Goexit.
func (c *coro) runThread() {
	returned := false
	defer func() {
		if returned {
			return
		}
		t := c.t
		if v := recover(); v != nil {
			if !t.kill {
				t.run.fail(fmt.Sprintf("%s panics: %v", t.name, v))
				t.run.stack = string(debug.Stack())
			}
			t.end()
			return
		}
		// Goexit cannot be undone. The goroutine stays here until its coroutine is
		// buried.
		c.retired = true
		t.end()
		c.yield(struct{}{})
	}()
	c.t.body()
	returned = true
	c.t.end()
}

// end marks the thread as ended and decides which thread goes on.
func (t *thread) end() {
	t.ended = true
	r := t.run
	if t.kill {
		return
	}
	r.next(t)
}

// next makes a thread go on, now that t has announced what it does next, or has
// ended. If this is t's first access, that is the thread that started t; else it
// is to be decided.
func (r *run) next(t *thread) {
	if n := len(r.starters); n > 0 {
		r.current = r.starters[n-1]
		r.starters = r.starters[:n-1]
		return
	}
	r.decide(t)
}

// do announces o and returns when the thread is to go on with it.
func (t *thread) do(o op) {
	r := t.run
	if t.kill {
		runtime.Goexit()
	}
	t.next = o
	if r.trace != nil {
		t.next.where = caller()
	}
	r.next(t)
	if r.current != t {
		t.handOver()
	}
}

// handOver lets the current thread of the run go on, until it is this one.
func (t *thread) handOver() {
	t.co.yield(struct{}{})
	if t.kill {
		runtime.Goexit()
	}
}

// abort ends the run; it does not return.
func (t *thread) abort() {
	t.run.current = nil
	t.handOver()
}

// start makes a thread and runs it up to its first access: what comes before
// that does not concern other threads.
func (r *run) start(name string, parent *thread, body func()) *thread {
	if parent != nil && parent.kill {
		runtime.Goexit()
	}
	if len(r.threads) == maxThreads {
		r.fail(fmt.Sprintf("more than %d threads", maxThreads))
		parent.abort()
	}
	t := &thread{id: len(r.threads), name: name, run: r, body: body, clock: none}
	if parent != nil {
		t.clock = parent.clock
	}
	r.threads = append(r.threads, t)
	if n := len(r.x.idle); n > 0 {
		t.co = r.x.idle[n-1]
		r.x.idle = r.x.idle[:n-1]
	} else {
		t.co = newCoro()
	}
	t.co.t = t
	if parent != nil {
		r.starters = append(r.starters, parent)
		r.current = t
		parent.handOver()
	}
	return t
}

// loop runs the threads until none is to go on.
func (r *run) loop() {
	for r.current != nil {
		r.current.co.resume()
	}
	for _, t := range r.threads {
		if !t.ended {
			t.kill = true
			r.current = t
			t.co.resume()
		}
		if t.co.retired {
			go t.co.stop()
		} else {
			r.x.idle = append(r.x.idle, t.co)
		}
	}
}
