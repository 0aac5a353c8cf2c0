//go:build !poolsim

package kernel

// check is for models.
func (c *Crew) check() {}
