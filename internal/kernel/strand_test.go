//go:build !poolsim

package kernel

import (
	"context"
	"testing"

	"github.com/shoal-go/shoal/internal/queue"
)

// A once is a strand of one task, which may be used again as soon as Next has returned.
type once struct {
	Record
	run  func()
	next func()
	cut  chan struct{}
}

func (o *once) Refused() error         { return nil }
func (o *once) Run() error             { o.run(); return nil }
func (o *once) Over(error)             {}
func (o *once) Cut(error)              { close(o.cut) }
func (o *once) Returns(error) bool     { return false }
func (o *once) Resolve(error)          {}
func (o *once) Outer() context.Context { return nil }
func (o *once) Next() (first *Record, more bool) {
	if f := o.next; f != nil {
		o.next = nil
		f()
	}
	return nil, false
}

// A strand that has run inline is idle after Next, and its record is used again, for a task that runs
// inline too. The first one, which is not counted yet, must not take the second one's name off the
// list of those that are cut.
func TestAStrandThatIsUsedAgainInlineIsCut(t *testing.T) {
	l := newLane(1, 4, 0)
	o := &once{cut: make(chan struct{})}
	o.Init(o, l)
	running, leave, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	o.run = func() {}
	o.next = func() { // what another submitter does between the return of Next and the count
		o.Again()
		o.run = func() { close(running); <-leave }
		go func() {
			if err := l.RunInline(queue.Record(&o.Record), 0); err != nil {
				t.Error(err)
			}
			close(done)
		}()
		<-running
	}
	if err := l.RunInline(queue.Record(&o.Record), 0); err != nil {
		t.Fatal(err)
	}
	l.End(true, ErrClosed)
	select {
	case <-o.cut:
	default:
		t.Error("the lane was stopped, and the context of the task that runs inline has not ended")
	}
	close(leave)
	<-done
	<-l.Done().C()
}
