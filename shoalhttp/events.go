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
	next chan []byte   // holds the latest one that was not sent
	gone chan struct{} // closed when it is to end
}

// serveEvents sends events to the client of r until it is gone.
func (h *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that else wait for more
	if r.Method == http.MethodHead {
		return
	}
	c := http.NewResponseController(w)
	send := func(prefix string, data []byte) bool {
		c.SetWriteDeadline(time.Now().Add(patience)) // where that is not supported, r's context must do
		if _, err := w.Write(append(append([]byte(prefix), data...), "\n\n"...)); err != nil {
			return false
		}
		return c.Flush() == nil
	}
	v := h.join()
	defer h.leave(v)
	_, data := h.latest()
	if !send("retry: 1000\ndata: ", data) {
		return
	}
	end := time.NewTimer(maxStream)
	defer end.Stop()
	for {
		select {
		case data := <-v.next:
			if !send("data: ", data) {
				return
			}
		case <-v.gone:
			return
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (h *Page) join() *viewer {
	v := &viewer{next: make(chan []byte, 1), gone: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) == maxViewers {
		close(h.viewers[0].gone)
		h.viewers = h.viewers[1:]
	}
	h.viewers = append(h.viewers, v)
	h.lookOnLocked()
	return v
}

func (h *Page) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.viewers, v); i >= 0 {
		h.viewers = slices.Delete(h.viewers, i, i+1)
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
	for _, v := range h.viewers {
		select { // one that was not sent is replaced: only h sends to it, locked
		case <-v.next:
		default:
		}
		v.next <- h.sample.data
	}
	h.lookOnLocked()
}
