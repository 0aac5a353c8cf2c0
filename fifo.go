package shoal

// A fifo is a queue for one goroutine at a time. Its memory is that of the most
// that were in it.
type fifo[T any] struct {
	buf  []T
	head int
}

func (q *fifo[T]) len() int { return len(q.buf) - q.head }

// all is what is in it, the oldest first.
func (q *fifo[T]) all() []T { return q.buf[q.head:] }

func (q *fifo[T]) push(v T) {
	if len(q.buf) == cap(q.buf) && q.head > len(q.buf)/2 {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head = q.buf[:n], 0
	}
	q.buf = append(q.buf, v)
}

// pop takes the oldest, which must exist.
func (q *fifo[T]) pop() (v T) {
	v, q.buf[q.head] = q.buf[q.head], v
	q.head++
	return v
}

// unpush takes the newest, which must exist, away.
func (q *fifo[T]) unpush() {
	last := len(q.buf) - 1
	clear(q.buf[last:])
	q.buf = q.buf[:last]
}
