//go:build !race

package testpool

// Race says that the race detector is on.
const Race = false
