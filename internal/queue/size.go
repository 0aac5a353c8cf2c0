//go:build !poolsim

package queue

const (
	segSize = 248 // a segment then fills 2 KB, a size class of the allocator, but for a word

	// StampEvery is how many tickets share one place for a time stamp, unless
	// the array stamps every ticket.
	StampEvery = 64
)
