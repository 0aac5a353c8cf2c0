package jobstest_test

import (
	"testing"
	"time"

	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

// TestQueueMakesIDsThatAreNew: it does not take a message without an ID for one that it knows.
func TestQueueMakesIDsThatAreNew(t *testing.T) {
	q := jobstest.NewQueue(time.Minute)
	for _, id := range []string{"job-1", "job-2", "", "job-4", ""} {
		if err := q.Enqueue(t.Context(), jobs.Message{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if n := q.Len(); n != 5 {
		t.Errorf("%d jobs of 5 are in the queue", n)
	}
}
