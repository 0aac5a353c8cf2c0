//go:build poolsim

package queue

// In models a few tasks must suffice to fill a segment, and a taker parks unless its putter has come.
const (
	segSize   = 2
	firstSize = 1

	patience = 0

	// StampEvery is how many tickets share one place for a time stamp, unless
	// the array stamps every ticket.
	StampEvery = 4
)
