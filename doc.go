// Package shoal runs tasks on a bounded number of goroutines.
//
//	pool, err := shoal.New(shoal.WithMaxWorkers(16))
//	if err != nil {
//		return err
//	}
//	defer pool.Close()
//	for _, url := range urls {
//		if err := pool.Submit(func() { fetch(url) }); err != nil {
//			return err
//		}
//	}
//	return pool.Shutdown(ctx) // runs what was accepted, then ends
//
// # The life of a task
//
// Submit takes a ticket, which is its admission, and puts the task into the
// queue (submit.go; room.go where it has to wait for room). A worker takes the
// ticket and runs the task (worker.go), contains what goes wrong in it
// (run.go), and counts it by one step of the word it took the ticket from
// (word.go). Workers come and go between a minimum and a maximum (sizing.go),
// and sleep when there is nothing to do (park.go). life.go is pause, resize,
// waiting and the end of a pool; stats.go, histogram.go and stacks.go look inside,
// watch.go tells when something is wrong, and tracer.go follows tasks.
//
// Built on that are results ([Go], [Future], [Pool.Group]; call.go and help.go are
// tasks that somebody waits for), loops ([Map], [ForEach]), tasks in the order of
// keys ([Keyed]; turn.go), resources of workers ([Local]), functions of values
// ([Func]), and pools that borrow the workers of another one ([Pool.Sub]).
//
// # What is promised
//
// An accepted task, one for which Submit returned nil, runs exactly once,
// unless the pool is closed or told to drop it, and then it is counted as
// dropped. While a task waits, a worker that is free, or may be started, is on
// its way to it; nothing polls. It may give way to the workers there are as
// long as they start tasks (see [Auto]), and a start hook takes its own time.
// There are never more workers than the maximum. No task waits behind another
// one that already runs. Shutdown and Close return when every goroutine of the
// pool has done its last act.
//
// In the terms of the Go memory model, submitting a task synchronizes before
// the task's start, and a task's end synchronizes before the return of the
// Wait, SubmitWait, Shutdown or Close that waited for it.
//
// The proofs are in docs/engine.md.
package shoal
