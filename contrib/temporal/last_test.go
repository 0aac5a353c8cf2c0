package shoaltemporal

import (
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

func TestLast(t *testing.T) {
	for _, c := range []struct {
		attempt int32
		policy  *temporal.RetryPolicy
		want    bool
	}{
		{1, nil, false},
		{9, &temporal.RetryPolicy{}, false},
		{1, &temporal.RetryPolicy{MaximumAttempts: 2}, false},
		{2, &temporal.RetryPolicy{MaximumAttempts: 2}, true},
		{1, &temporal.RetryPolicy{MaximumAttempts: 1}, true},
	} {
		if got := last(activity.Info{Attempt: c.attempt, RetryPolicy: c.policy}); got != c.want {
			t.Errorf("attempt %d, %+v: %v", c.attempt, c.policy, got)
		}
	}
}

// TestLastByTime: Temporal does not try an activity again when its ScheduleToCloseTimeout would be
// over. Of a local one ScheduledTime is that of the attempt.
func TestLastByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			left  time.Duration
			local bool
			want  bool
		}{
			{30 * time.Second, false, false},
			{besidePause + lateness + time.Millisecond, false, false},
			{besidePause + lateness, false, true},
			{besidePause, false, true},
			{0, false, true},
			{-time.Second, false, true},
			{besidePause, true, false},
		} {
			const all = time.Minute
			i := activity.Info{Attempt: 1, ScheduleToCloseTimeout: all, ScheduledTime: time.Now().Add(c.left - all), IsLocalActivity: c.local}
			if got := last(i); got != c.want {
				t.Errorf("%v left, local %v: %v", c.left, c.local, got)
			}
		}
		if last(activity.Info{Attempt: 1, ScheduledTime: time.Now().Add(-time.Hour)}) {
			t.Error("the last one, without a ScheduleToCloseTimeout")
		}
	})
}
