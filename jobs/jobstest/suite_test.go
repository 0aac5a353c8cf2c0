package jobstest_test

import (
	"testing"
	"time"

	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

func TestQueuePassesTheSuite(t *testing.T) {
	jobstest.RunInBubbles(t, func(t *testing.T) jobstest.Subject {
		q := jobstest.NewQueue(time.Second)
		return jobstest.Subject{
			Sink:     q,
			Consumer: func(testing.TB) jobs.Source { return q },
			Dead:     func(testing.TB) []jobs.DeadLetter { return q.Dead() },
		}
	})
}

func TestThereAreEnoughCases(t *testing.T) {
	if n := len(jobstest.Cases()); n < 20 {
		t.Errorf("%d cases", n)
	}
}
