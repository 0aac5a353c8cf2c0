//go:build poolsim

package kernel

import "github.com/shoal-go/shoal/internal/explore"

// check has a model fail that leaves the lock while something does not hold.
func (c *Crew) check() {
	if f := c.audit(); f != "" {
		if m := explore.Env(); m != nil {
			m.Failf("audit: %s", f)
		}
	}
}
