package shoaltemporal

import (
	"testing"

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
