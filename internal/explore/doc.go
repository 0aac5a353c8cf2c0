// Package explore runs small concurrent programs, models, under every schedule
// that matters.
//
// The threads of a model are coroutines, of which one runs at a time. Before
// each access to something shared a thread announces it and hands control to
// the explorer, which therefore knows what every thread would do next and
// decides which one goes on. A schedule is the list of these decisions. The explorer
// runs the model again and again, depth first, each time with the decisions of
// the last run up to some point and another one there, until none is left.
//
// What is run is the real code: built with the tag poolsim, the types of
// package sy announce their accesses here. That is the method of tokio's loom
// and Microsoft's CHESS. Go's atomics are sequentially consistent, so
// interleavings are all there is to explore.
//
// Schedules that differ only in the order of accesses that do not depend on
// each other have the same outcome. [All] explores one of each class of them:
// dynamic partial-order reduction with source sets and sleep sets (Abdulla,
// Aronis, Jonsson and Sagonas, POPL 2014). [Bound] explores the schedules with
// no more than so many preemptions, also reduced (Coons, Musuvathi and
// McKinley, OOPSLA 2013), for models in which all are too many. [Random] and
// [PCT] (Burckhardt et al., ASPLOS 2010) draw schedules.
//
// A run fails if a thread panics or reports a failure, if threads are left of
// which none can go on (a deadlock, or a lost wake-up), if it does not end, or
// if a timer is armed at the end. A failure comes with a replay string, from
// which [Replay] repeats the run and tells what each thread did.
//
// What a model must keep to: it is deterministic but for the explorer's
// decisions; what its threads share without a type of package sy, such as a
// count of tasks, does not influence what they do next, unless a mutex guards
// it; and no loop waits for another thread.
package explore
