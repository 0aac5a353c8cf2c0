package taskgo

// HoldBatch is a batch that is being queued until release is called.
func HoldBatch(q *Queue) (release func()) {
	q.mu.RLock()
	return q.mu.RUnlock
}
