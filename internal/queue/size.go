//go:build !poolsim

package queue

const (
	segSize   = 243 // cells: a segment then fills 2 KB, a size class of the allocator
	firstSize = 16  // cells of the first segment, which takes 224 bytes

	// patience is how often a taker looks for its putter's task before it parks. In the
	// second half of the rounds it yields.
	patience = 64

	// StampEvery is how many tickets share one place for a time stamp, unless
	// the array stamps every ticket.
	StampEvery = 64
)
