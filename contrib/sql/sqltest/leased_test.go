package sqltest

import (
	"context"
	"testing"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// TestADeliveryKnowsWhenItWasLeased, while it was pulled.
func TestADeliveryKnowsWhenItWasLeased(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		q := open(t, p.open(t), p.d, "q")
		must(t, q.Enqueue(context.Background(), jobs.Message{ID: "a"}, jobs.Message{ID: "b"}))
		before := time.Now()
		ds := pull(t, q, 2)
		after := time.Now()
		if len(ds) != 2 {
			t.Fatalf("%d jobs, want 2", len(ds))
		}
		for _, d := range ds {
			l, ok := d.(interface{ Leased() time.Time })
			if !ok || l.Leased().Before(before) || l.Leased().After(after) {
				t.Errorf("%s: %T was leased outside of the call of Pull", d.ID(), d)
			}
		}
	})
}
