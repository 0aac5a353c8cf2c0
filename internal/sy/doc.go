// Package sy is the only door through which shoal's concurrent code reaches
// shared memory, the scheduler and the clock.
//
// In a normal build everything here is an alias or a function of one line that
// the compiler inlines, so it costs nothing. The build tag poolsim swaps in a
// second set of definitions under the same names, in which every access first
// hands control to package explore, which runs the real code under every
// schedule (the trick of tokio's loom). For that the root package and package
// queue follow four rules:
//
//   - no sync/atomic, sync.Mutex, channel used for parking, or go statement:
//     they use the types and functions of this package;
//   - a loop that waits for another goroutine gives up after a few rounds;
//   - what differs between schedules is read through this package: the time,
//     timers, the end of a context, the load of the machine;
//   - a plain (non-atomic) field is owned by one goroutine or guarded by a
//     [Mutex], and says which.
package sy
