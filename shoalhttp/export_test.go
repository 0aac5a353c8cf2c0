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

// Viewers is how many streams there are, and whether anybody serves them.
func Viewers(h *Page) (n int, runs bool) {
	h.events.mu.Lock()
	defer h.events.mu.Unlock()
	return len(h.events.viewers), h.events.runs
}

// Duration, Count, Rate and Capacity are functions of the template.
var (
	Duration = duration
	Count    = count
	Rate     = rate
	Capacity = capacity
)

// Take takes a snapshot.
func Take(h *Page) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takeLocked()
}
