package shoal

import (
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// TicketBits is the width of the tickets that tasks are numbered with.
const TicketBits = queue.TicketBits

// NewAt is Must(New(opts...)) for a pool whose first ticket is first: that is
// how far an old pool has come.
func NewAt(first uint64, opts ...Option) *Pool {
	return Must(New(append(opts, option(func(c *config) { c.lane.First = first }))...))
}

// HistogramOf is the Histogram of ds.
func HistogramOf(ds ...time.Duration) Histogram {
	var r sy.Pointer[recorder]
	for _, d := range ds {
		record(&r, int64(d))
	}
	return r.Load().snapshot()
}

// NextChunk is nextChunk.
func NextChunk(n uint64, took time.Duration, most uint64) uint64 {
	return nextChunk(n, int64(took), most)
}
