// Package linear checks that what many goroutines see of a pool could have
// happened one after the other: that there is an order of all that was
// submitted, started, ended, waited for and closed, in which each took effect
// between its call and its return, and in which a simple queue with a bound
// behaves as the pool did. The histories are recorded from the real pool,
// running in parallel; the search for the order is Porcupine's
// (github.com/anishathalye/porcupine). It is a module of its own, so that
// shoal has no dependency.
package linear
