package shoal_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/fstest"

	"github.com/shoal-go/shoal"
)

// Fetch pages and count what is in them, while doing something else.
func ExampleGo() {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("word ", len(r.URL.Path)))
	}))
	defer site.Close()
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	words := func(path string) *shoal.Future[int] {
		return shoal.Go(context.Background(), pool, func(ctx context.Context) (int, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, site.URL+path, nil)
			if err != nil {
				return 0, err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return len(strings.Fields(string(body))), err
		})
	}
	home, about := words("/"), words("/about")
	fmt.Println(home.Wait(context.Background()))
	fmt.Println(about.Wait(context.Background()))
	// Output:
	// 1 <nil>
	// 6 <nil>
}

// Tasks may wait for tasks of their own pool, even if it has one worker: pass
// the task's context to Wait.
func ExampleFuture_Wait() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	var fib func(n int) func(context.Context) (int, error)
	fib = func(n int) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			if n < 2 {
				return n, nil
			}
			a, b := shoal.Go(ctx, pool, fib(n-1)), shoal.Go(ctx, pool, fib(n-2))
			x, errX := a.Wait(ctx)
			y, errY := b.Wait(ctx)
			return x + y, errors.Join(errX, errY)
		}
	}
	fmt.Println(shoal.Go(context.Background(), pool, fib(15)).Wait(context.Background()))
	// Output: 610 <nil>
}

// Ask two, take the first answer, and call off the other.
func ExampleFuture_Cancel() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	ask := func(who string) *shoal.Future[string] {
		return shoal.Go(context.Background(), pool, func(context.Context) (string, error) { return who, nil })
	}
	first := ask("first")
	<-first.Done()
	pool.Pause() // so that the second one certainly waits
	second := ask("second")
	fmt.Println(first.Wait(context.Background()))
	fmt.Println(second.Cancel())
	fmt.Println(second.Wait(context.Background()))
	pool.Resume()
	// Output:
	// first <nil>
	// true
	//  context canceled
}

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

// A server that is full says so at once.
func ExampleTryGo() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0)))
	defer pool.Close()

	ctx := context.Background()
	gate := make(chan struct{})
	first, err := shoal.TryGo(ctx, pool, func(context.Context) (string, error) { <-gate; return "done", nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = shoal.TryGo(ctx, pool, func(context.Context) (string, error) { return "", nil })
	fmt.Println(errors.Is(err, shoal.ErrQueueFull))
	close(gate)
	fmt.Println(first.Wait(ctx))
	// Output:
	// true
	// done <nil>
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

// The results come in the order of the items, each as soon as it and those before it
// are there.
func ExampleMap() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	lines := strings.Lines("1\nfish\n2\n")
	parse := func(_ context.Context, s string) (int, error) { return strconv.Atoi(strings.TrimSpace(s)) }
	for n, err := range shoal.Map(context.Background(), pool, lines, parse) {
		fmt.Println(n, err)
	}
	// Output:
	// 1 <nil>
	// 0 strconv.Atoi: parsing "fish": invalid syntax
	// 2 <nil>
}

// The first answer is enough: break calls off the others and waits for them.
func ExampleMapUnordered() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(8)))
	defer pool.Close()

	primes := 0
	for n, err := range shoal.MapUnordered(context.Background(), pool, numbers, func(ctx context.Context, n int) (int, error) {
		for d := 2; d*d <= n; d++ {
			if n%d == 0 {
				return n, fmt.Errorf("%d is divisible by %d", n, d)
			}
		}
		return n, nil
	}) {
		if err == nil && n > 1 {
			if primes++; primes == 25 {
				break
			}
		}
	}
	fmt.Println(primes)
	// Output: 25
}

// numbers are all of them.
func numbers(yield func(int) bool) {
	for n := 0; yield(n); n++ {
	}
}

// All items run; the errors come in the order of the items.
func ExampleForEach() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	stock := map[string]int{"cod": 3, "eel": 0, "ray": 7, "tuna": 0}
	err := shoal.ForEach(context.Background(), pool, slices.Values(slices.Sorted(maps.Keys(stock))),
		func(_ context.Context, fish string) error {
			if stock[fish] == 0 {
				return fmt.Errorf("no %s", fish)
			}
			return nil
		})
	fmt.Println(err)
	// Output:
	// no eel
	// no tuna
}

// The items are too short to be tasks of their own: f is given many at once.
func ExampleRange() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	var sum atomic.Int64
	err := shoal.Range(context.Background(), pool, 1_000_001, func(_ context.Context, lo, hi int) error {
		part := int64(0)
		for i := lo; i < hi; i++ {
			part += int64(i)
		}
		sum.Add(part) // once a chunk
		return nil
	})
	fmt.Println(sum.Load(), err)
	// Output: 500000500000 <nil>
}

// A histogram: each chunk counts on its own, and adds that to the whole at its end.
func ExampleRange_histogram() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()
	text := []byte(strings.Repeat("a shoal of fish", 10_000))

	var mu sync.Mutex // guards whole
	var whole [256]int
	err := shoal.Range(context.Background(), pool, len(text), func(_ context.Context, lo, hi int) error {
		var part [256]int
		for _, c := range text[lo:hi] {
			part[c]++
		}
		mu.Lock()
		defer mu.Unlock()
		for c, n := range part {
			whole[c] += n
		}
		return nil
	})
	fmt.Println(whole['a'], whole['s'], err)
	// Output: 20000 20000 <nil>
}

// Loops in loops share the workers of the pool. Pass the inner loop the context that the outer
// one gives.
func ExampleRange_nested() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	const rows, columns = 30, 40
	var table [rows][columns]int
	err := shoal.Range(context.Background(), pool, rows, func(ctx context.Context, lo, hi int) error {
		for y := lo; y < hi; y++ {
			if err := shoal.Range(ctx, pool, columns, func(_ context.Context, lo, hi int) error {
				for x := lo; x < hi; x++ {
					table[y][x] = x * y
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Println(table[29][39], err)
	// Output: 1131 <nil>
}

func ExampleMapSlice() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()
	ctx := context.Background()

	atoi := func(_ context.Context, s string) (int, error) { return strconv.Atoi(s) }
	fmt.Println(shoal.MapSlice(ctx, pool, []string{"1", "2", "3"}, atoi))

	numbers, err := shoal.MapSlice(ctx, pool, []string{"4", "five", "6", ""}, atoi, shoal.CollectErrors())
	fmt.Println(numbers)
	fmt.Println(err)
	// Output:
	// [1 2 3] <nil>
	// [4 0 6 0]
	// strconv.Atoi: parsing "five": invalid syntax
	// strconv.Atoi: parsing "": invalid syntax
}

// All items run, whatever becomes of the others.
func ExampleForEachSlice() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	err := shoal.ForEachSlice(context.Background(), pool, []string{".", "no such file", "example_results_test.go"},
		func(_ context.Context, name string) error {
			_, err := os.Stat(name)
			return err
		})
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output: true
}

// A client that does not read its messages misses some. The goroutine that sends
// them never waits.
func ExampleKeyed_TrySubmit() {
	pool := shoal.Must(shoal.New(shoal.WithQueueCapacity(100)))
	defer pool.Close()

	reads := make(chan struct{})
	clients := shoal.NewKeyed[string](pool)
	missed := 0
	for range 1000 {
		err := clients.TrySubmit("slow", func() { <-reads })
		if errors.Is(err, shoal.ErrQueueFull) {
			missed++
		}
	}
	fmt.Println(missed > 0)
	close(reads)
	pool.Wait()
	// Output: true
}

// The result of a task of a key: it sees what the tasks of that key before it have done.
func ExampleGoKeyed() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	ctx := context.Background()
	balance := 100
	book := shoal.NewKeyed[string](pool)
	if err := book.Submit("ada", func() { balance -= 30 }); err != nil {
		fmt.Println(err)
	}
	left := shoal.GoKeyed(ctx, book, "ada", func(context.Context) (int, error) { return balance, nil })
	fmt.Println(left.Wait(ctx))
	// Output: 70 <nil>
}

// Transactions of one account run in order, one at a time, so they need no
// lock; those of different accounts run side by side.
func ExampleKeyed() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	type account struct{ balance, refused int }
	accounts := map[string]*account{"ada": {balance: 100}, "bob": {balance: 10}}
	book := shoal.NewKeyed[string](pool)
	transfer := func(name string, amount int) {
		a := accounts[name] // the map itself is only read
		if err := book.Submit(name, func() {
			if a.balance+amount < 0 {
				a.refused++
				return
			}
			a.balance += amount
		}); err != nil {
			fmt.Println(err)
		}
	}
	for range 50 {
		transfer("ada", -10)
		transfer("bob", +1)
		transfer("ada", +9)
	}
	pool.Wait()
	fmt.Println(*accounts["ada"], *accounts["bob"])
	// Output: {50 0} {60 0}
}

// One function for many values, with no closure for each of them.
func ExampleFunc() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()

	var total atomic.Int64
	add := shoal.NewFunc(pool, func(n int64) { total.Add(n) })
	for n := range int64(1000) {
		if err := add.Submit(n); err != nil {
			fmt.Println(err)
		}
	}
	pool.Wait()
	fmt.Println(total.Load())
	// Output: 499500
}

// A compressor is costly to make and not safe for several goroutines: each
// worker has one, made when it is first needed.
func ExampleLocal() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
	defer pool.Close()
	writers := shoal.NewLocal(pool,
		func(worker int) (*gzip.Writer, error) { return gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) },
		func(z *gzip.Writer) { z.Close() })

	compress := func(text string) *shoal.Future[[]byte] {
		return shoal.Go(context.Background(), pool, func(ctx context.Context) ([]byte, error) {
			z, err := writers.Get(ctx)
			if err != nil {
				return nil, err
			}
			var out bytes.Buffer
			z.Reset(&out)
			io.WriteString(z, text)
			err = z.Close()
			return out.Bytes(), err
		})
	}
	small, err := compress("a shoal of fish").Wait(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(small))
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := io.ReadAll(z)
	fmt.Println(string(text), err)
	// Output: a shoal of fish <nil>
}
