package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	compatants "github.com/shoal-go/shoal/compat/ants"
	compatpond "github.com/shoal-go/shoal/compat/pond"
	compatworkerpool "github.com/shoal-go/shoal/compat/workerpool"
)

// facades are the originals in shoal's clothes, each under the name of the one
// that it stands for.
var facades = []Subject{
	{Name: "pond-eager", New: func(c Config) Pool { return newPondOnShoal(c, compatpond.Eager()) }},
	{Name: "pond-balanced", New: func(c Config) Pool { return newPondOnShoal(c, compatpond.Balanced()) }},
	{Name: "pond-lazy", New: func(c Config) Pool { return newPondOnShoal(c, compatpond.Lazy()) }},
	{Name: "ants", New: newAntsOnShoal},
	{Name: "workerpool", New: newWorkerpoolOnShoal},
}

func newPondOnShoal(c Config, strategy compatpond.ResizingStrategy) Pool {
	opts := []compatpond.Option{compatpond.Strategy(strategy)}
	if c.IdleTimeout > 0 {
		opts = append(opts, compatpond.IdleTimeout(c.IdleTimeout))
	}
	p := compatpond.New(c.MaxWorkers, c.Capacity, opts...)
	return funcs{submit: p.Submit, close: p.StopAndWait}
}

func newAntsOnShoal(c Config) Pool {
	var opts []compatants.Option
	if c.IdleTimeout > 0 {
		opts = append(opts, compatants.WithExpiryDuration(c.IdleTimeout))
	}
	p, err := compatants.NewPool(c.MaxWorkers, opts...)
	must(err)
	return funcs{
		submit: func(task func()) { must(p.Submit(task)) },
		close:  func() { must(p.ReleaseTimeout(time.Minute)) },
	}
}

func newWorkerpoolOnShoal(c Config) Pool {
	p := compatworkerpool.New(c.MaxWorkers)
	return funcs{submit: p.Submit, close: p.StopWait}
}

// BenchmarkFacade runs pond's ten workloads on each library and on the facade that
// stands for it (…-on-shoal). scripts/facades makes a table of it.
func BenchmarkFacade(b *testing.B) {
	for _, w := range pondRows {
		for _, facade := range facades {
			original := Subjects[slices.IndexFunc(Subjects, func(s Subject) bool { return s.Name == facade.Name })]
			row := strings.ReplaceAll(w.Name, "/load=", "-")
			b.Run("row="+row+"/lib="+facade.Name, func(b *testing.B) { w.run(b, original) })
			b.Run("row="+row+"/lib="+facade.Name+"-on-shoal", func(b *testing.B) { w.run(b, facade) })
		}
	}
}
