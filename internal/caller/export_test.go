package caller

// WithoutSites runs f as if return addresses did not tell the digits apart.
func WithoutSites(f func()) {
	NewID()
	was := sites
	sites = nil
	defer func() { sites = was }()
	f()
}

// HasSites reports whether return addresses tell the digits apart.
func HasSites() bool { NewID(); return sites != nil }

// Tells reports whether it would if the address of one were that of another.
func Tells(one, other int) bool {
	NewID()
	t := *sites
	t[one] = t[other]
	return t.ifDistinct() != nil
}

// Sites is how many addresses there are.
const Sites = len(table{})

// Noted is how many notes there are.
func Noted() int {
	notes.mu.Lock()
	defer notes.mu.Unlock()
	return len(notes.calls)
}
