//go:build !race

package shoal_test

const raceEnabled = false
