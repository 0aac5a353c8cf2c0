package shoalhttp

import (
	"bytes"
	"time"
)

// MaxViewers is maxViewers.
const MaxViewers = maxViewers

// SetPatience sets for how long a client may not read, until the returned function is
// called.
func SetPatience(d time.Duration) (reset func()) {
	was := patience
	patience = d
	return func() { patience = was }
}

// Viewers is how many streams there are, and whether the page looks at its pools for them.
func Viewers(h *Page) (n int, runs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.viewers), h.pace == every
}

// Duration, Count, Rate, Capacity and Visible are functions of the template.
var (
	Duration = duration
	Count    = count
	Rate     = rate
	Capacity = capacity
	Visible  = visible
)

// Take takes a snapshot.
func Take(h *Page) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takeLocked()
}

// Kept is how many points are kept of the pool of an ID.
func Kept(h *Page, id int) int {
	t, _ := h.find(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(t.past.points)
}

// Looks reports whether the page will look at its pools by itself.
func Looks(h *Page) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pace > 0
}

// Foreignness is foreignness.
var Foreignness = foreignness

// Stream is the next events for the viewers, as they would be sent: all plain, all packed, changes
// plain, changes packed.
func Stream(h *Page) (sent [4][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takeLocked()
	was := h.tellLocked()
	is := h.told.snapshot
	if was == nil {
		was = is
	}
	changed := newMessage(func() []byte { return changes(was, is) })
	return [4][]byte{h.told.all.plain(), h.told.all.packed(), changed.plain(), changed.packed()}
}

// Changes is changes.
var Changes = changes

// Gzipped is what a viewer who takes gzip gets of these events.
func Gzipped(events ...string) []byte {
	var b bytes.Buffer
	z := &gzipped{w: &b}
	for _, e := range events {
		z.send(newMessage(func() []byte { return []byte(e) }))
	}
	z.end()
	return b.Bytes()
}

// TakesGzip is takesGzip.
var TakesGzip = takesGzip
