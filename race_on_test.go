//go:build race

package shoal

const RaceEnabled = true
