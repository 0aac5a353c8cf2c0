package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

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
