package shoalhttp

import "time"

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
