// Package demo is a program that has something to do, so that its pools can be
// watched: it hashes the files of a tree, fetches from a server that it starts
// itself, and calls a dependency that is slow, and now and then hangs.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/contrib/prom"
	"github.com/shoal-go/shoal/shoalhttp"
)

// A Config is what can be chosen.
type Config struct {
	Listen string        // the address of the page
	Token  string        // for its controls
	Dir    string        // the tree whose files are hashed
	Drain  time.Duration // for how long tasks may go on at the end
	Log    *slog.Logger  // for the warnings of the watchdog
	Clock  time.Duration // how long a minute of the dependency is: it hangs once in each
}

// Run works until ctx ends, says on out where that can be watched, and at the end what
// was left.
func Run(ctx context.Context, c Config, out io.Writer) (err error) {
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	upstream, err := startUpstream(c.Clock)
	if err != nil {
		return err
	}
	defer upstream.Close()
	pools, err := newPools(c)
	if err != nil {
		return err
	}
	server, err := serve(listener, c.Token, pools)
	if err != nil {
		pools.end(c.Drain, io.Discard)
		return err
	}
	at := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "watch     %s/debug/shoal/#token=%s\nmetrics   %s/metrics\nprofiles  %s/debug/pprof/\nCtrl-C stops the demo\n", at, c.Token, at, at)

	work, stop := context.WithCancel(ctx)
	var sources sync.WaitGroup
	sources.Go(func() { hashTree(work, pools.hash, c.Dir) })
	sources.Go(func() { fetchPages(work, pools, upstream.URL) })
	sources.Go(func() { callDependency(work, pools.slow, upstream.URL) })
	<-ctx.Done()
	fmt.Fprintf(out, "\nstopping; running tasks are cancelled, and have up to %v to end\n", c.Drain)
	stop()
	sources.Wait() // nothing is submitted any more
	pools.end(c.Drain, out)
	bye, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(bye); err != nil { // the stream of a viewer does not end
		server.Close()
	}
	return nil
}

// pools are those of the program. fetch has two sub-pools: people wait for the tasks
// of one, nobody for those of the other.
type pools struct {
	hash, fetch, people, batch, slow *shoal.Pool
}

func newPools(c Config) (p *pools, err error) {
	p = new(pools)
	watch := shoal.WithLogger(c.Log)
	make := func(name string, opts ...shoal.Option) *shoal.Pool {
		q, e := shoal.New(append(opts, shoal.WithName(name), watch)...)
		err = errors.Join(err, e)
		return q
	}
	p.hash = make("hash", shoal.WithQueueCapacity(512))
	p.fetch = make("fetch", shoal.WithMaxWorkers(8))
	p.slow = make("slow-dependency", shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(40), shoal.WithFullPolicy(shoal.Reject),
		shoal.WithStallAfter(c.Clock/20), shoal.WithSlowTask(c.Clock/10))
	if err != nil {
		return nil, err
	}
	p.people, err = p.fetch.Sub(shoal.WithName("people"), shoal.WithPriority(1), shoal.WithQueueCapacity(100))
	if err == nil {
		p.batch, err = p.fetch.Sub(shoal.WithName("batch"), shoal.WithMaxWorkers(6), shoal.WithQueueCapacity(200))
	}
	return p, err
}

// end drains the pools, and says what was left in each.
func (p *pools) end(patience time.Duration, out io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all sync.WaitGroup
	said := make([]string, 3)
	for i, q := range []*shoal.Pool{p.hash, p.fetch, p.slow} {
		all.Go(func() {
			left := "no task is left"
			if e := (*shoal.ShutdownError)(nil); errors.As(q.Shutdown(ctx), &e) {
				left = fmt.Sprintf("%d tasks dropped, %d interrupted", e.Dropped, e.Running)
			}
			<-q.Done()
			s := q.Stats()
			said[i] = fmt.Sprintf("%-16s %s; %d tasks completed, %d failed, %d rejected", s.Name, left, s.Completed, s.Failed, s.Rejected)
		})
	}
	all.Wait()
	for _, s := range said {
		fmt.Fprintln(out, s)
	}
	for _, q := range []*shoal.Pool{p.people, p.batch} {
		s := q.Stats()
		fmt.Fprintf(out, "  %-14s %d tasks completed, %d failed, %d rejected\n", s.Name, s.Completed, s.Failed, s.Rejected)
	}
}

// serve serves the page, the metrics and the profiles.
func serve(l net.Listener, token string, p *pools) (*http.Server, error) {
	page, err := shoalhttp.New(shoalhttp.WithPools(p.hash, p.fetch, p.slow), shoalhttp.WithControls(token))
	if err != nil {
		return nil, err
	}
	collector, err := prom.NewCollector(p.hash, p.fetch, p.slow)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/shoal/", page)
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/{$}", http.RedirectHandler("/debug/shoal/", http.StatusFound))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go s.Serve(l) // it ends by Shutdown or Close
	return s, nil
}
