package shoalhttp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

const token = "a token of many bytes"

func newPool(t testing.TB, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	p, err := shoal.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func newPage(t testing.TB, opts ...shoalhttp.Option) *shoalhttp.Page {
	t.Helper()
	h, err := shoalhttp.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// quiet keeps the test from logging.
func quiet(t testing.TB) {
	was := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(was) })
}

// hold has n tasks of p wait until the test ends, or release is called.
func hold(t testing.TB, p *shoal.Pool, n int) (release func()) {
	t.Helper()
	started, gate := make(chan bool), make(chan bool)
	for range n {
		if err := p.Submit(func() { hangHere(started, gate) }); err != nil {
			t.Fatal(err)
		}
		<-started
	}
	done := false
	release = func() {
		if !done {
			close(gate)
			done = true
		}
	}
	t.Cleanup(release)
	return release
}

func hangHere(started, gate chan bool) {
	started <- true
	<-gate
}

// serve serves h below /debug/shoal/ of a real server.
func serve(t testing.TB, h http.Handler) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/debug/shoal/", h)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections) // before: a stream has no end
	return s.URL + "/debug/shoal/"
}

type change func(*http.Request)

func header(name, value string) change {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) change { return func(r *http.Request) { r.Host = name } }

// ask sends a request and returns the answer, whose body it has read.
func ask(t testing.TB, method, url, body string, changes ...change) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		c(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// get decodes what is at url into v.
func get(t testing.TB, url string, v any) {
	t.Helper()
	resp, body := ask(t, "GET", url, "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %s %s", url, resp.Status, body)
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}

func TestPageWithoutScriptsIsComplete(t *testing.T) {
	p := newPool(t, shoal.WithName("images <b>"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(2000))
	sub, err := p.Sub(shoal.WithName("thumbnails"), shoal.WithQueueCapacity(shoal.Unbounded))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	hold(t, p, 1)
	for range 1234 {
		p.Submit(func() {})
	}
	url := serve(t, shoalhttp.Handler(p))
	resp, body := ask(t, "GET", url, "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	for _, want := range []string{"images &lt;b&gt;", "thumbnails", "Open", "1,234 / 2,000", "0 / unbounded", "1 / 0 / 1", runtime.Version()} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestHeaders(t *testing.T) {
	url := serve(t, shoalhttp.Handler())
	for path, kind := range map[string]string{
		"":           "text/html; charset=utf-8",
		"app.js":     "text/javascript; charset=utf-8",
		"uplot.js":   "text/javascript; charset=utf-8",
		"style.css":  "text/css; charset=utf-8",
		"uplot.css":  "text/css; charset=utf-8",
		"stats.json": "application/json",
	} {
		for _, method := range []string{"GET", "HEAD"} {
			resp, body := ask(t, method, url+path, "")
			h := resp.Header
			if resp.StatusCode != 200 || h.Get("Content-Type") != kind || h.Get("X-Content-Type-Options") != "nosniff" ||
				h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" ||
				!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
				t.Errorf("%s %s: %s %v", method, path, resp.Status, h)
			}
			if (method == "GET") != (body != "") {
				t.Errorf("%s %s has %d bytes", method, path, len(body))
			}
		}
	}
	_, page := ask(t, "GET", url, "")
	at := regexp.MustCompile(`app\.js\?v=[0-9a-f]+`).FindString(page)
	if resp, _ := ask(t, "GET", url+at, ""); !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: Cache-Control %q", at, resp.Header.Get("Cache-Control"))
	}
	for _, path := range []string{"nothing", "index.html", "assets"} {
		if resp, _ := ask(t, "GET", url+path, ""); resp.StatusCode != 404 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	if resp, _ := ask(t, "DELETE", url+"stats.json", ""); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("DELETE: %s", resp.Status)
	}
}

func TestAssetsAreSmallAndAskForNothingElsewhere(t *testing.T) {
	var all bytes.Buffer
	z, _ := gzip.NewWriterLevel(&all, gzip.BestCompression)
	names, err := filepath.Glob("assets/*")
	if err != nil || len(names) < 5 {
		t.Fatal(names, err)
	}
	outside := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+\.[a-z0-9.-]+`)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		z.Write(data)
		if strings.HasSuffix(name, "LICENSE") {
			continue
		}
		for _, at := range outside.FindAllString(string(data), -1) {
			switch {
			case strings.HasSuffix(at, "//www.w3.org"): // a name space
			case strings.HasSuffix(name, "uplot.js") && strings.Contains(at, "github.com"): // a comment
			default:
				t.Errorf("%s has the address %s", name, at)
			}
		}
	}
	z.Close()
	if all.Len() > 80<<10 {
		t.Errorf("the assets have %d bytes, gzipped: want at most 80 KB", all.Len())
	}
}

func TestStats(t *testing.T) {
	p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(3), shoal.WithFullPolicy(shoal.Reject), shoal.WithTiming(shoal.TimingFull))
	q := newPool(t, shoal.WithName("b"))
	var subs []*shoal.Pool
	for _, name := range []string{"x", "x", ""} {
		s, err := p.Sub(shoal.WithName(name))
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, s)
	}
	defer func() { runtime.KeepAlive(subs) }() // one that is dropped is collected
	deep, err := subs[1].Sub(shoal.WithName("deep"))
	if err != nil {
		t.Fatal(err)
	}
	h := newPage(t, shoalhttp.WithPools(p, q))
	url := serve(t, h)
	var first, second shoalhttp.Snapshot
	get(t, url+"stats.json", &first)
	var tree []string
	for _, r := range first.Pools {
		parent := "-"
		for _, o := range first.Pools {
			if o.ID == r.Parent {
				parent = o.Name
			}
		}
		tree = append(tree, fmt.Sprint(parent, ">", r.Name, " ", r.Depth))
	}
	if want := []string{"->a 0", "a>x 1", "a>x #2 1", "x #2>deep 2", "a>(no name) 1", "->b 0"}; !slices.Equal(tree, want) {
		t.Errorf("pools %q, want %q", tree, want)
	}
	if first.Interval != 0 || first.Controls || first.GOMAXPROCS != runtime.GOMAXPROCS(0) || first.Started == "" {
		t.Errorf("%+v", first)
	}
	release := hold(t, p, 2)
	for range 10 {
		p.Submit(func() {})
	}
	for second.Interval == 0 || second.Pools[0].Submitted == 0 {
		get(t, url+"stats.json", &second)
	}
	a := second.Pools[0]
	if a.Submitted != 5 || a.Rejected != 7 || a.Running != 2 || a.Queued != 3 || a.QueueCapacity != 3 || a.MaxWorkers != 2 || a.State != "Open" || a.Completed != 0 || a.InFlight != 5 {
		t.Errorf("%+v", a)
	}
	if a.SubmitRate <= 0 || a.RejectRate <= 0 || a.CompleteRate != 0 || a.WaitTotal.Count != 0 || a.RunTotal.Count != 0 {
		t.Errorf("%+v", a)
	}
	release()
	p.Wait()
	deep.Close()
	subs[2].Close()
	q.Close()
	for second.Pools[0].Completed == 0 {
		get(t, url+"stats.json", &second)
	}
	if a := second.Pools[0]; a.Run.Count != 5 || a.RunTotal.Count != 5 || a.Run.P99 < a.Run.P50 || a.CompleteRate <= 0 {
		t.Errorf("%+v", a)
	}
	if n := len(second.Pools); n != 4 || second.Pools[3].State != "Closed" {
		t.Errorf("%d pools, want those that live, and the one that was added: %+v", n, second.Pools)
	}
	h.Remove(p)
	get(t, url+"stats.json", &second)
	if len(second.Pools) != 1 || second.Pools[0].Name != "b" {
		t.Errorf("after Remove: %+v", second.Pools)
	}
	if err := h.Add(newPool(t, shoal.WithName("b"))); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("Add of a second b: %v", err)
	}
	if err := h.Add(newPool(t, shoal.WithName("c"))); err != nil {
		t.Error(err)
	}
	get(t, url+"stats.json", &second)
	if len(second.Pools) != 2 || second.Pools[1].Name != "c" || second.Pools[1].ID <= a.ID+5 {
		t.Errorf("after Add: %+v", second.Pools)
	}
}

func TestWorkersAndStacks(t *testing.T) {
	p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(4), shoal.WithMinWorkers(4))
	hold(t, p, 3)
	url := serve(t, shoalhttp.Handler(p))
	var s shoalhttp.Snapshot
	get(t, url+"stats.json", &s)
	at := fmt.Sprintf("?pool=%d", s.Pools[0].ID)
	var w shoalhttp.Workers
	get(t, url+"workers.json"+at, &w)
	get(t, url+"workers.json"+at, &w) // now the ages are known
	if w.Total != 4 || len(w.Workers) != 4 || w.Workers[0].State != "running" || w.Workers[0].TaskAge <= 0 || w.Workers[2].TaskAge <= 0 || w.Workers[3].State == "running" {
		t.Errorf("%+v", w)
	}
	get(t, url+"workers.json"+at+"&limit=2", &w)
	if w.Total != 4 || len(w.Workers) != 2 {
		t.Errorf("%+v", w)
	}
	var k shoalhttp.Stacks
	get(t, url+"stacks.json"+at+"&n=2", &k)
	if len(k.Tasks) != 2 || k.Note != "" || !strings.Contains(k.Tasks[0].Stack, "shoalhttp_test.hangHere(") || k.Tasks[0].Age < k.Tasks[1].Age {
		t.Errorf("%+v", k)
	}
	for path, status := range map[string]int{
		"workers.json":                     404,
		"workers.json?pool=99":             404,
		"workers.json?pool=x":              404,
		"workers.json" + at + "&limit=0":   400,
		"workers.json" + at + "&limit=1e9": 400,
		"stacks.json?pool=-1":              404,
		"stacks.json" + at + "&n=101":      400,
	} {
		if resp, body := ask(t, "GET", url+path, ""); resp.StatusCode != status || !strings.HasPrefix(body, "shoalhttp: ") {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
}

// waitUntil waits for a condition. That it never comes fails by the timeout of the test.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		if t.Context().Err() != nil {
			t.Fatal(what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestFormats(t *testing.T) {
	for s, want := range map[float64]string{
		0: "0s", 1e-9: "1ns", 1.5e-6: "1.5µs", 999.4e-9: "999ns", 0.001234: "1.23ms", 0.01234: "12.3ms", 0.1234: "123ms", 0.9999: "1s",
		59.9: "59.9s", 61: "1m01s", 3661: "1h01m", 1e12: "> 30 years", -1: "0s",
	} {
		if got := shoalhttp.Duration(s); got != want {
			t.Errorf("Duration(%v) = %q, want %q", s, got, want)
		}
	}
	for v, want := range map[any]string{0: "0", 999: "999", uint64(1000): "1,000", 1234567.4: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := shoalhttp.Count(v); got != want {
			t.Errorf("Count(%v) = %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0/s", 0.5: "0.5/s", 9.99: "9.99/s", 12.6: "13/s", 123456: "123,456/s"} {
		if got := shoalhttp.Rate(v); got != want {
			t.Errorf("Rate(%v) = %q, want %q", v, got, want)
		}
	}
	for s, want := range map[string]string{
		"": "", "größe 1\u00a0%": "größe 1\u00a0%", `a\n`: `a\n`, "a\nb\x00\x1b[31m\x7f\u0085": `a\nb\x00\x1b[31m\x7f\u0085`,
		"\u202egpj.exe\u200b": `\u202egpj.exe\u200b`, "\xff\ufffd": `\xff` + "\ufffd", "\u2028": `\u2028`,
	} {
		if got := shoalhttp.Visible(s); got != want {
			t.Errorf("Visible(%q) = %q, want %q", s, got, want)
		}
	}
	if shoalhttp.Capacity(-1) != "unbounded" || shoalhttp.Capacity(1<<20) != "1,048,576" {
		t.Error("Capacity")
	}
}

func TestPageBelowAPrefixThatIsStripped(t *testing.T) {
	for _, prefix := range []string{"/debug/shoal", "/debug/shoal/"} {
		url := serve(t, http.StripPrefix(prefix, shoalhttp.Handler()))
		for path, want := range map[string]int{"": 200, "stats.json": 200, "app.js": 200, "nothing": 404} {
			if resp, _ := ask(t, "GET", url+path, ""); resp.StatusCode != want {
				t.Errorf("%q without %s: %s", path, prefix, resp.Status)
			}
		}
	}
}

// The first rates of a pool that was added between two looks are of the time since then.
func TestRatesOfAPoolThatWasAddedBetweenLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPage(t, shoalhttp.WithPools(newPool(t, shoal.WithName("a"))))
		shoalhttp.Take(h)
		b := newPool(t, shoal.WithName("b"))
		look := func(after time.Duration) shoalhttp.PoolRow {
			t.Helper()
			for end := time.Now().Add(after); time.Now().Before(end); time.Sleep(time.Millisecond) { // 1,000 tasks a second
				b.Submit(func() {})
			}
			var s shoalhttp.Snapshot
			read(t, h, "stats.json", &s)
			return s.Pools[len(s.Pools)-1]
		}
		time.Sleep(100 * time.Millisecond)
		if err := h.Add(b); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			after time.Duration
			rate  float64
		}{{0, 0}, {time.Second, 1000}, {500 * time.Millisecond, 1000}} {
			if r := look(c.after); r.SubmitRate != c.rate {
				t.Errorf("after %v: %v tasks a second, want %v", c.after, r.SubmitRate, c.rate)
			}
		}
		h.Remove(b)
		look(240 * time.Millisecond)
		h.Add(b)
		look(0)
		if r := look(10 * time.Millisecond); r.SubmitRate != 0 { // so short a time says nothing
			t.Errorf("%v tasks a second, want no rate yet", r.SubmitRate)
		}
		if r := look(time.Second); r.SubmitRate != 1000 {
			t.Errorf("%v tasks a second, want 1000", r.SubmitRate)
		}
	})
}
