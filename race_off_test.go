//go:build !race

package shoal

// RaceEnabled says that the race detector is on.
const RaceEnabled = false
