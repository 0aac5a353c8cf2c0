package demo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/shoal-go/shoal"
)

// pause waits for d, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// between is a time between the two, shorter ones more often.
func between(least, most time.Duration) time.Duration {
	return least + time.Duration(math.Pow(rand.Float64(), 3)*float64(most-least))
}

// startUpstream starts the server that is fetched from, on loopback. It has pages that
// take some milliseconds, and a dependency that takes longer, and once a minute hangs
// for a sixth of it.
func startUpstream(minute time.Duration) (*httptest.Server, error) {
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("/page/{n}", func(w http.ResponseWriter, r *http.Request) {
		pause(r.Context(), between(2*time.Millisecond, 60*time.Millisecond))
		fmt.Fprintf(w, "page %s\n", r.PathValue("n"))
	})
	mux.HandleFunc("/dependency", func(w http.ResponseWriter, r *http.Request) {
		d := between(20*time.Millisecond, 200*time.Millisecond)
		if at := time.Since(began) % minute; at > minute/2 {
			d = max(d, minute*2/3-at)
		}
		pause(r.Context(), d)
		if rand.IntN(50) == 0 {
			http.Error(w, "out of order", http.StatusInternalServerError)
		}
	})
	return httptest.NewServer(mux), nil
}

// get reads what is at url.
func get(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// hashTree hashes the files of a tree, again and again, with a rest in between.
func hashTree(ctx context.Context, p *shoal.Pool, dir string) {
	for ctx.Err() == nil {
		// What cannot be read is passed over: this is about the pool.
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return ctx.Err()
			}
			if err := p.SubmitContext(ctx, func(ctx context.Context) { hashFile(ctx, path) }); err != nil {
				return err
			}
			if rand.IntN(20) == 0 {
				pause(ctx, 10*time.Millisecond) // leave some CPU to whoever watches
			}
			return ctx.Err()
		})
		pause(ctx, 5*time.Second)
	}
}

// hashFile hashes a file.
func hashFile(ctx context.Context, path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	h := sha256.New()
	for ctx.Err() == nil {
		if _, err := io.CopyN(h, f, 1<<20); err != nil {
			return
		}
	}
}

// fetchPages fetches for people, in waves, and for a batch that always has more.
func fetchPages(ctx context.Context, p *pools, url string) {
	batch := p.batch.Group(ctx, shoal.Limit(150), shoal.CollectErrors())
	defer batch.Stop()
	go func() {
		for ctx.Err() == nil {
			batch.Go(func(ctx context.Context) error { return get(ctx, url+"/page/batch") })
		}
	}()
	began := time.Now()
	for n := 0; ; n++ {
		wave := 1 + math.Sin(time.Since(began).Seconds()/5)
		if !pause(ctx, time.Duration(float64(40*time.Millisecond)/(0.2+wave))) {
			return
		}
		// A page is some requests that belong together.
		shoal.Go(ctx, p.people, func(ctx context.Context) (int, error) {
			g := p.people.Group(ctx)
			for i := range 3 {
				g.Go(func(ctx context.Context) error { return get(ctx, fmt.Sprintf("%s/page/%d-%d", url, n, i)) })
			}
			return n, g.Wait()
		})
	}
}

// callDependency calls the slow dependency more often than it can bear when it hangs.
func callDependency(ctx context.Context, p *shoal.Pool, url string) {
	for pause(ctx, 30*time.Millisecond) {
		// A Future, so that a failed call counts as one. Nobody waits for it: a Group would then keep
		// its context, and ctx a reference to that, until ctx ends.
		shoal.Go(ctx, p, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, get(ctx, url+"/dependency")
		})
	}
}
