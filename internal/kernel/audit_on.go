//go:build poolsim

package kernel

import "github.com/shoal-go/shoal/internal/explore"

// check makes a model fail that releases the lock while an invariant is broken.
func (c *Crew) check() {
	if f := c.audit(); f != "" {
		if m := explore.Env(); m != nil {
			m.Failf("audit: %s", f)
		}
	}
}
