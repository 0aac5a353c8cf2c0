package shoalhttp_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

func TestChangesAreWhatDiffers(t *testing.T) {
	was := &shoalhttp.Snapshot{Time: 1, Pools: []shoalhttp.PoolRow{
		{ID: 1, Name: "a", Completed: 5, Verdicts: []shoalhttp.Verdict{{Level: 2, Label: "failing"}}, Run: shoalhttp.Durations{Count: 7, P50: 1}},
		{ID: 2, Name: "b", Completed: 5, SubmitRate: 3},
	}}
	is := &shoalhttp.Snapshot{Time: 2, Interval: 1, Pools: []shoalhttp.PoolRow{
		{ID: 1, Name: "a", Completed: 6, Run: shoalhttp.Durations{Count: 8, P50: 0.000123456}, Below: shoalhttp.Below{Pools: 2, SubmitRate: 12345.6}},
		{ID: 2, Name: "b", Completed: 5, SubmitRate: 3},
	}}
	got := string(shoalhttp.Changes(was, is))
	const want = `"partial":true,"pools":[{"id":1,"completed":6,"run":{"count":8,"mean":0,"p50":0.0001235,"p99":0,"max":0},` +
		`"below":{"pools":2,"running":0,"queued":0,"submit_rate":1.235e+04,"complete_rate":0},"verdicts":null}]}`
	if !strings.HasPrefix(got, `{"time":2,"interval":1,`) || !strings.HasSuffix(got, want) {
		t.Errorf("%s", got)
	}
	// Other pools, or another order: all.
	for _, pools := range [][]shoalhttp.PoolRow{{is.Pools[1], is.Pools[0]}, is.Pools[:1], nil} {
		got := string(shoalhttp.Changes(was, &shoalhttp.Snapshot{Pools: pools}))
		if all, err := json.Marshal(&shoalhttp.Snapshot{Pools: pools}); err != nil || got != string(all) {
			t.Errorf("%s", got)
		}
	}
}

func TestGzippedEvents(t *testing.T) {
	r, err := gzip.NewReader(bytes.NewReader(shoalhttp.Gzipped("one", strings.Repeat("two", 1000), "")))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r) // it checks the end, too
	if want := "data: one\n\ndata: " + strings.Repeat("two", 1000) + "\n\ndata: \n\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	for accept, want := range map[string]bool{"": false, "gzip": true, "deflate, gzip;q=0.5, br": true, "gzip;q=0": false, "gzip; q=0": false, "x-gzip": false, "*": false,
		"gzip;q=0.0": false, "gzip ; Q=0.000": false, "gzip;q=": false, "br, GZIP;q=0.001": true, "gzip;\tq=1": true, "deflate;q=0, gzip": true} {
		if got := shoalhttp.TakesGzip(accept); got != want {
			t.Errorf("Accept-Encoding %q: %v", accept, got)
		}
	}
}

func TestChangesArriveCompressed(t *testing.T) {
	p := newPool(t, shoal.WithName("a"), shoal.WithTiming(shoal.TimingFull))
	h := newPage(t, shoalhttp.WithPools(p, newPool(t, shoal.WithName("idle"))))
	url := serve(t, h)
	r, _ := http.NewRequestWithContext(t.Context(), "GET", url+"changes", nil)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if !resp.Uncompressed {
		t.Error("the stream is not compressed")
	}
	lines := bufio.NewScanner(resp.Body)
	var s struct {
		Time    float64
		Partial bool
		Pools   []shoalhttp.PoolRow
	}
	row := make(map[int]shoalhttp.PoolRow)
	for n := 0; n < 3 || n < 60 && row[1].Completed < 2; { // a second each
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var rows struct{ Pools []json.RawMessage }
		if json.Unmarshal([]byte(data), &s) != nil || json.Unmarshal([]byte(data), &rows) != nil {
			t.Fatal(data)
		}
		if s.Partial != (n > 0) || n == 0 && len(s.Pools) != 2 {
			t.Fatalf("event %d: %s", n, data)
		}
		for _, raw := range rows.Pools {
			var id struct{ ID int }
			json.Unmarshal(raw, &id)
			is := row[id.ID] // a field that is left out is as before
			if err := json.Unmarshal(raw, &is); err != nil {
				t.Fatal(err)
			}
			if n > 0 && is.Name == "idle" {
				t.Errorf("an idle pool is sent again: %s", raw)
			}
			row[id.ID] = is
		}
		p.Submit(func() {})
		p.Wait()
		n++
	}
	if a := row[1]; a.Name != "a" || a.Completed < 2 || a.MaxWorkers != p.Stats().MaxWorkers || a.RunTotal.Count != a.Completed {
		t.Errorf("%+v", a)
	}
}
