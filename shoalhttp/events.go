package shoalhttp

import (
	"net/http"
	"slices"
	"time"
	"weak"
)

const (
	// every is how often the page looks at its pools while somebody reads events, and tells them.
	every = time.Second
	// maxViewers is how many may look at once. One more ends the stream of the one
	// that has looked for longest: it may be somebody who went away, and a browser
	// that has not connects again.
	maxViewers = 64
	// maxStream is for how long a stream goes on before the client has to connect
	// again: one whose client has gone without a word is known by no other sign as
	// long as the network takes what is sent.
	maxStream = time.Hour
)

// patience is for how long a client may not read before it is given up.
var patience = 10 * time.Second

// A viewer is a stream of events.
type viewer struct {
	changes bool          // it wants what has changed, not all
	next    chan message  // holds the latest one that was not sent
	gone    chan struct{} // closed when it is to end
}

// serveEvents sends events to the client of r until it is gone.
func (h *Page) serveEvents(w http.ResponseWriter, r *http.Request, changes bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that else wait for more
	packed := takesGzip(r.Header.Get("Accept-Encoding"))
	if packed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	if r.Method == http.MethodHead {
		return
	}
	c := http.NewResponseController(w)
	z := &gzipped{w: w}
	send := func(m message) bool {
		c.SetWriteDeadline(time.Now().Add(patience)) // where that is not supported, r's context must do
		if packed {
			if z.send(m) != nil {
				return false
			}
		} else if _, err := w.Write(m.plain()); err != nil {
			return false
		}
		return c.Flush() == nil
	}
	v, first := h.join(changes, r)
	defer h.leave(v)
	if !send(hello) || !send(first) {
		return
	}
	end := time.NewTimer(maxStream)
	defer end.Stop()
	for {
		select {
		case m := <-v.next:
			if !send(m) {
				return
			}
			continue
		case <-v.gone:
		case <-end.C:
		case <-r.Context().Done():
			return
		}
		if packed {
			z.end()
		}
		return
	}
}

// hello is what a stream begins with: after how many milliseconds to connect again.
var hello = func() message {
	plain := func() []byte { return []byte("retry: 1000\n") }
	return message{plain, func() []byte { return pack(plain()) }}
}()

// told is what the viewers know.
type told struct {
	snapshot *Snapshot // nil: there are none
	all      message
}

func (h *Page) tellLocked() (was *Snapshot) {
	was = h.told.snapshot
	data := h.sample.data
	h.told = told{h.sample.snapshot, newMessage(func() []byte { return data })}
	return was
}

// join adds a viewer and returns what it is to be sent first: what those that are there know.
func (h *Page) join(changes bool, r *http.Request) (*viewer, message) {
	v := &viewer{changes: changes, next: make(chan message, 1), gone: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told.snapshot == nil {
		h.latestLocked()
		h.tellLocked()
	}
	if h.shutsDownLocked(r) {
		close(v.gone)
		return v, h.told.all
	}
	if len(h.viewers) == maxViewers {
		close(h.viewers[0].gone)
		h.viewers = h.viewers[1:]
	}
	h.viewers = append(h.viewers, v)
	h.lookOnLocked()
	return v, h.told.all
}

// shutsDownLocked reports whether the server of r shuts down. At its first call for a server it makes the streams end
// then: else the server would wait for them. Those of another server end too; their clients connect again. A server
// that shuts down calls what it knew by then, so each request comes here, not only the first for a stream.
func (h *Page) shutsDownLocked(r *http.Request) bool {
	s, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return false
	}
	page, server := weak.Make(h), weak.Make(s)
	begun, known := h.servers[server]
	if known {
		return begun
	}
	if h.servers == nil {
		h.servers = make(map[weak.Pointer[http.Server]]bool)
	}
	h.servers[server] = false
	s.RegisterOnShutdown(func() {
		if h := page.Value(); h != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.servers[server] = true
			for _, v := range h.viewers {
				close(v.gone)
			}
			h.viewers = nil
		}
	})
	return false
}

func (h *Page) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.viewers, v); i >= 0 {
		h.viewers = slices.Delete(h.viewers, i, i+1)
	}
	if len(h.viewers) == 0 {
		h.told = told{} // it would grow old
	}
}

// lookOnLocked sets the timer to the pace that is needed now: every while there are viewers,
// pointEvery while there are pools that are not closed, else none. There is no goroutine between
// two looks, and the timer does not keep the page in memory.
func (h *Page) lookOnLocked() {
	pace := time.Duration(0)
	switch {
	case len(h.viewers) > 0:
		pace = every
	case slices.ContainsFunc(h.pools, (*tracked).lives):
		pace = pointEvery
	}
	if pace == h.pace {
		return
	}
	h.pace = pace
	switch {
	case h.timer == nil:
		page := weak.Make(h)
		h.timer = time.AfterFunc(pace, func() {
			if h := page.Value(); h != nil {
				h.tick()
			}
		})
	case pace == 0:
		h.timer.Stop()
	default:
		h.timer.Reset(pace)
	}
}

// tick takes a snapshot and tells the viewers.
func (h *Page) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pace = 0 // the timer has ended
	h.takeLocked()
	if len(h.viewers) == 0 {
		h.lookOnLocked()
		return
	}
	was, is := h.tellLocked(), h.told.snapshot
	changed := newMessage(func() []byte { return changes(was, is) })
	for _, v := range h.viewers {
		m := h.told.all
		if v.changes {
			m = changed
		}
		select { // one that was not sent is replaced by all: only h sends to it, locked
		case <-v.next:
			m = h.told.all
		default:
		}
		v.next <- m
	}
	h.lookOnLocked()
}
