//go:build !poolsim

package queue

const (
	segSize = 256 // a segment then fills its size class of the allocator

	// StampEvery is how many tickets share one place for a time stamp, unless
	// the array stamps every ticket.
	StampEvery = 64
)
