package shoalhttp

import (
	"net/http"
	"sync"
	"time"
)

const (
	// every is how often those who look are told.
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

// A feed sends snapshots to those who look. While there are any, one goroutine takes
// one each second.
type feed struct {
	page *Page

	mu      sync.Mutex
	viewers []*viewer // the oldest first
	runs    bool      // the goroutine does
}

// A viewer is a stream of events.
type viewer struct {
	next chan []byte   // holds the latest one that was not sent
	gone chan struct{} // closed when it is to end
}

// serve sends events to the client of r until it is gone.
func (f *feed) serve(w http.ResponseWriter, r *http.Request) {
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
	v := f.join()
	defer f.leave(v)
	_, data := f.page.latest()
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

func (f *feed) join() *viewer {
	v := &viewer{next: make(chan []byte, 1), gone: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.viewers) == maxViewers {
		close(f.viewers[0].gone)
		f.viewers = f.viewers[1:]
	}
	f.viewers = append(f.viewers, v)
	if !f.runs {
		f.runs = true
		go f.run()
	}
	return v
}

func (f *feed) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, o := range f.viewers {
		if o == v {
			f.viewers = append(f.viewers[:i:i], f.viewers[i+1:]...)
			return
		}
	}
}

// run tells the viewers until there are none.
func (f *feed) run() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range tick.C {
		f.mu.Lock()
		if len(f.viewers) == 0 {
			f.runs = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		_, data := f.page.latest()
		f.mu.Lock()
		for _, v := range f.viewers {
			select { // one that was not sent is replaced: only f sends to it
			case <-v.next:
			default:
			}
			v.next <- data
		}
		f.mu.Unlock()
	}
}
