package taskgo

// HoldBatch is a batch that is being queued until release is called.
func (q *queue) HoldBatch() (release func()) {
	q.mu.RLock()
	return q.mu.RUnlock
}
