package race

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"golang.org/x/perf/benchfmt"
)

// WriteBench writes every measurement in Go's benchmark format, for benchstat.
func (r *Results) WriteBench(w io.Writer) error {
	out := benchfmt.NewWriter(w)
	for _, m := range r.Measurements {
		if m.Failure != "" {
			continue
		}
		res := &benchfmt.Result{
			Name:  benchfmt.Name(fmt.Sprintf("%s/pool=%s-%d", m.Row, m.Subject, m.Procs)),
			Iters: m.Iterations,
		}
		for _, unit := range slices.Sorted(maps.Keys(m.Values)) {
			res.Values = append(res.Values, benchfmt.Value{Value: m.Values[unit], Unit: unit})
		}
		for _, c := range []struct{ key, value string }{
			{"goos", r.Machine.OS}, {"goarch", r.Machine.Arch}, {"cpu", r.Machine.CPU}, {"pkg", "github.com/shoal-go/shoal/bench"},
		} {
			res.Config = append(res.Config, benchfmt.Config{Key: c.key, Value: []byte(c.value), File: true})
		}
		if err := out.Write(res); err != nil {
			return err
		}
	}
	return nil
}
