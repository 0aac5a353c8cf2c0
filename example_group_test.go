package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing/fstest"

	"github.com/shoal-go/shoal"
)

// Walk a tree of directories: each directory is a task, which waits for those
// below it. The pool has one worker, and that is enough.
func ExamplePool_Group() {
	tree := fstest.MapFS{
		"a/x": {Data: make([]byte, 100)}, "a/y": {Data: make([]byte, 20)},
		"b/c/d/z": {Data: make([]byte, 3)}, "top": {Data: make([]byte, 4000)},
	}
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	var bytes atomic.Int64
	var walk func(dir string) func(context.Context) error
	walk = func(dir string) func(context.Context) error {
		return func(ctx context.Context) error {
			entries, err := fs.ReadDir(tree, dir)
			if err != nil {
				return err
			}
			below := pool.Group(ctx)
			for _, e := range entries {
				path := dir + "/" + e.Name()
				if dir == "." {
					path = e.Name()
				}
				if e.IsDir() {
					below.Go(walk(path))
				} else if info, err := e.Info(); err == nil {
					bytes.Add(info.Size())
				}
			}
			return below.Wait()
		}
	}
	whole := pool.Group(context.Background())
	whole.Go(walk("."))
	fmt.Println(whole.Wait(), bytes.Load())
	// Output: <nil> 4123
}

// The first error cancels the rest.
func ExampleGroup_Wait() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
	defer pool.Close()

	group := pool.Group(context.Background())
	group.Go(func(ctx context.Context) error {
		<-ctx.Done() // would run for long, but is called off
		return ctx.Err()
	})
	group.Go(func(context.Context) error { return errors.New("disk full") })
	fmt.Println(group.Wait())
	// Output: disk full
}

// Stop in a defer: whatever way the function is left, its tasks are over.
func ExampleGroup_Stop() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()

	search := func() error {
		group := pool.Group(context.Background())
		defer group.Stop()
		started := make(chan struct{})
		group.Go(func(ctx context.Context) error {
			close(started)
			<-ctx.Done()
			fmt.Println("called off")
			return ctx.Err()
		})
		<-started
		return errors.New("the caller gave up")
	}
	fmt.Println(search())
	// Output:
	// called off
	// the caller gave up
}

// All errors, in the order of Go, whatever the order in which they came.
func ExampleCollectErrors() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(3)))
	defer pool.Close()

	group := pool.Group(context.Background(), shoal.CollectErrors())
	for _, name := range []string{"a.txt", "b/", "c.txt", "d/"} {
		group.Go(func(context.Context) error {
			if name[len(name)-1] == '/' {
				return fmt.Errorf("%s is a directory", name)
			}
			return nil
		})
	}
	fmt.Println(group.Wait())
	// Output:
	// b/ is a directory
	// d/ is a directory
}

// At most two at a time, whatever the pool allows.
func ExampleLimit() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(8)))
	defer pool.Close()

	var now, most atomic.Int32
	group := pool.Group(context.Background(), shoal.Limit(2))
	for range 100 {
		group.Go(func(context.Context) error {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			now.Add(-1)
			return nil
		})
	}
	fmt.Println(group.Wait(), most.Load() <= 2)
	// Output: <nil> true
}

// With its own context, WaitContext returns at the first error, while other tasks may
// still run.
func ExampleGroup_WaitContext() {
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
	defer p.Close()
	g := p.Group(context.Background())
	release := make(chan struct{})
	g.Go(func(context.Context) error { <-release; return nil }) // heeds no context
	g.Go(func(context.Context) error { return errors.New("not today") })
	fmt.Println(g.WaitContext(g.Context()))
	close(release)
	fmt.Println(g.Wait())
	// Output:
	// not today
	// not today
}
