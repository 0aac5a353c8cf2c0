package bench

import (
	"sync/atomic"
	"testing"
)

// TestSubjects makes sure that every adapter runs every task and that Close
// drains, except for goroutines, which cannot.
func TestSubjects(t *testing.T) {
	for _, s := range Subjects {
		t.Run(s.Name, func(t *testing.T) {
			p := s.New(Config{MaxWorkers: 4, Capacity: 100})
			submitFrom(p, 10, 1000, empty)
			var ran atomic.Int64
			for range 100 {
				p.Submit(func() { ran.Add(1) })
			}
			p.Close()
			if n := ran.Load(); n != 100 && s.Name != "goroutines" {
				t.Errorf("%d of 100 tasks had run when Close returned", n)
			}
		})
	}
}
