package shoalhttp_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
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

// quiet has the test log nothing.
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
	var again shoalhttp.Stacks
	get(t, url+"stacks.json"+at+"&n=2", &again)
	if len(again.Tasks) != 2 || again.Tasks[0] != k.Tasks[0] {
		t.Errorf("the process was stopped again at once")
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

func TestEvents(t *testing.T) {
	p := newPool(t, shoal.WithName("a"))
	h := newPage(t, shoalhttp.WithPools(p))
	url := serve(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "GET", url+"events", nil)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v", resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	var last float64
	for n := 0; n < 3; {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var s shoalhttp.Snapshot
		if err := json.Unmarshal([]byte(data), &s); err != nil || len(s.Pools) != 1 {
			t.Fatal(data, err)
		}
		if s.Time <= last || n > 0 && s.Interval <= 0 {
			t.Errorf("event %d is of %v, %v after the last", n, s.Time, s.Interval)
		}
		last = s.Time
		n++
	}
	cancel()
	resp.Body.Close()
	waitUntil(t, "the stream ends", func() bool { n, runs := shoalhttp.Viewers(h); return n == 0 && !runs })
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

func TestClientsThatNeverReadAreNotKept(t *testing.T) {
	before := runtime.NumGoroutine()
	p := newPool(t, shoal.WithName("a"))
	h := newPage(t, shoalhttp.WithPools(p))
	mux := http.NewServeMux()
	mux.Handle("/debug/shoal/", h)
	s := httptest.NewServer(mux)
	addr := s.Listener.Addr().String()
	const clients = 1000
	conns := make([]net.Conn, 0, clients)
	for i := range clients {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		fmt.Fprintf(c, "GET /debug/shoal/events HTTP/1.1\r\nHost: %s\r\n\r\n", addr)
		if n, _ := shoalhttp.Viewers(h); n > shoalhttp.MaxViewers {
			t.Fatalf("%d streams after %d clients", n, i)
		}
	}
	// The ones that were sent away wait for another request of their clients, which
	// costs the server a goroutine each, as ever; streams are few.
	waitUntil(t, "all have asked", func() bool { n, _ := shoalhttp.Viewers(h); return n == shoalhttp.MaxViewers })
	for _, c := range conns {
		c.Close()
	}
	waitUntil(t, "the streams end", func() bool { n, runs := shoalhttp.Viewers(h); return n == 0 && !runs })
	s.Close()
	p.Close()
	waitUntil(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestAClientThatStopsReadingIsGivenUp(t *testing.T) {
	defer shoalhttp.SetPatience(50 * time.Millisecond)()
	pools := make([]*shoal.Pool, 3000) // so that an event is larger than what the network takes
	for i := range pools {
		pools[i] = newPool(t, shoal.WithName(fmt.Sprint("pool", i)))
	}
	h := newPage(t, shoalhttp.WithPools(pools...))
	mux := http.NewServeMux()
	mux.Handle("/debug/shoal/", h)
	s := httptest.NewServer(mux)
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(c, "GET /debug/shoal/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	waitUntil(t, "it is served", func() bool { n, _ := shoalhttp.Viewers(h); return n == 1 })
	waitUntil(t, "it is given up", func() bool { n, runs := shoalhttp.Viewers(h); return n == 0 && !runs })
}

func TestEvilRequestsAreRefused(t *testing.T) {
	p := newPool(t, shoal.WithName("a"))
	url := serve(t, newPage(t, shoalhttp.WithPools(p), shoalhttp.WithHosts("debug.example.com")))
	for _, c := range []struct {
		host string
		want int
	}{
		{"evil.example", 403}, {"evil.example:80", 403}, {"localhost.evil.example", 403}, {"127.0.0.1.evil.example", 403}, {"", 200},
		{"localhost", 200}, {"localhost:6060", 200}, {"LOCALHOST", 200}, {"app.localhost", 200}, {"127.0.0.1:1", 200}, {"[::1]:80", 200}, {"10.0.0.7", 200},
		{"debug.example.com:443", 200}, {"Debug.example.com", 200}, {"x.debug.example.com", 403},
	} {
		for _, path := range []string{"", "stats.json", "app.js"} {
			if resp, body := ask(t, "GET", url+path, "", host(c.host)); resp.StatusCode != c.want {
				t.Errorf("host %q, %q: %s %s", c.host, path, resp.Status, body)
			}
		}
	}
	for path, want := range map[string]int{"": 200, "stats.json": 403, "stacks.json?pool=1": 403, "events": 403, "app.js": 403} {
		for _, from := range []string{"cross-site", "same-site"} {
			if resp, _ := ask(t, "GET", url+path, "", header("Sec-Fetch-Site", from)); resp.StatusCode != want {
				t.Errorf("%q, asked for by another site (%s): %s", path, from, resp.Status)
			}
		}
	}
	if resp, body := ask(t, "POST", url+"control", "{}"); resp.StatusCode != 403 || !strings.Contains(body, "WithControls") {
		t.Errorf("control of a page that only shows: %s %s", resp.Status, body)
	}
}

func TestControls(t *testing.T) {
	quiet(t)
	p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(2))
	closed := newPool(t, shoal.WithName("closed"))
	closed.Close()
	large := newPool(t, shoal.WithName("large"), shoal.WithMaxWorkers(200_000))
	url := serve(t, newPage(t, shoalhttp.WithPools(p, closed, large), shoalhttp.WithControls(token)))
	var s shoalhttp.Snapshot
	get(t, url+"stats.json", &s)
	if !s.Controls {
		t.Error("the page does not say that it has controls")
	}
	command := func(pool int, rest string) string { return fmt.Sprintf(`{"pool":%d,%s}`, s.Pools[pool].ID, rest) }
	good := []change{header("Shoal-Token", token), header("Content-Type", "application/json"), header("Sec-Fetch-Site", "same-origin")}
	for _, c := range []struct {
		name, method, body string
		changes            []change
		want               int
		says               string
		state              shoal.State
		max                int
	}{
		{"pause", "POST", command(0, `"action":"pause"`), nil, 204, "", shoal.Paused, 2},
		{"pause again", "POST", command(0, `"action":"pause"`), nil, 204, "", shoal.Paused, 2},
		{"resume", "POST", command(0, `"action":"resume"`), nil, 204, "", shoal.Open, 2},
		{"resize", "POST", command(0, `"action":"resize","min":1,"max":7`), nil, 204, "", shoal.Open, 7},
		{"without a browser", "POST", command(0, `"action":"resize","min":0,"max":5`), []change{header("Sec-Fetch-Site", "")}, 204, "", shoal.Open, 5},

		{"GET", "GET", "", nil, 405, "POST", shoal.Open, 5},
		{"no token", "POST", command(0, `"action":"pause"`), []change{header("Shoal-Token", "")}, 403, "token", shoal.Open, 5},
		{"wrong token", "POST", command(0, `"action":"pause"`), []change{header("Shoal-Token", token+"x")}, 403, "token", shoal.Open, 5},
		{"cross-site", "POST", command(0, `"action":"pause"`), []change{header("Sec-Fetch-Site", "cross-site")}, 403, "another site", shoal.Open, 5},
		{"same-site", "POST", command(0, `"action":"pause"`), []change{header("Sec-Fetch-Site", "same-site")}, 403, "another site", shoal.Open, 5},
		{"other origin", "POST", command(0, `"action":"pause"`), []change{header("Sec-Fetch-Site", ""), header("Origin", "http://evil.example")}, 403, "another site", shoal.Open, 5},
		{"evil host", "POST", command(0, `"action":"pause"`), []change{host("evil.example")}, 403, "evil.example", shoal.Open, 5},
		{"a form", "POST", command(0, `"action":"pause"`), []change{header("Content-Type", "text/plain")}, 415, "application/json", shoal.Open, 5},
		{"no JSON", "POST", "pause!", nil, 400, "not understood", shoal.Open, 5},
		{"unknown field", "POST", command(0, `"action":"pause","and":1`), nil, 400, "and", shoal.Open, 5},
		{"too long", "POST", command(0, `"action":"`+strings.Repeat("x", 5000)+`"`), nil, 400, "too large", shoal.Open, 5},
		{"unknown action", "POST", command(0, `"action":"explode"`), nil, 400, "explode", shoal.Open, 5},
		{"unknown pool", "POST", `{"pool":99,"action":"pause"}`, nil, 404, "99", shoal.Open, 5},
		{"bad size", "POST", command(0, `"action":"resize","min":3,"max":2`), nil, 400, "3", shoal.Open, 5},
		{"absurd minimum", "POST", command(0, `"action":"resize","min":1000000,"max":1000000`), nil, 400, "min is 1000000: want 0 … 1000", shoal.Open, 5},
		{"absurd maximum", "POST", command(0, `"action":"resize","min":0,"max":1000000`), nil, 400, "max is 1000000: want 1 … 100000", shoal.Open, 5},
		{"below all", "POST", command(0, `"action":"resize","min":-1,"max":5`), nil, 400, "min is -1: want 0 … 1000", shoal.Open, 5},
		{"no maximum", "POST", command(0, `"action":"resize","min":0,"max":0`), nil, 400, "max is 0: want 1 … 100000", shoal.Open, 5},
		{"absurd, but so already", "POST", command(2, `"action":"resize","min":0,"max":200000`), nil, 204, "", shoal.Open, 5},
		{"closed pool", "POST", command(1, `"action":"pause"`), nil, 409, "closed", shoal.Open, 5},
		{"closed pool, resize", "POST", command(1, `"action":"resize","min":0,"max":2`), nil, 409, "closed", shoal.Open, 5},
	} {
		resp, body := ask(t, c.method, url+"control", c.body, append(slices.Clone(good), c.changes...)...)
		if resp.StatusCode != c.want || !strings.Contains(body, c.says) {
			t.Errorf("%s: %s %q, want %d and %q", c.name, resp.Status, body, c.want, c.says)
		}
		if st := p.Stats(); st.State != c.state || st.MaxWorkers != c.max {
			t.Errorf("%s: the pool is %v with at most %d workers, want %v, %d", c.name, st.State, st.MaxWorkers, c.state, c.max)
		}
	}
}

func TestBadInput(t *testing.T) {
	quiet(t)
	a, b := newPool(t, shoal.WithName("same")), newPool(t, shoal.WithName("same"))
	if _, err := shoalhttp.New(shoalhttp.WithPools(newPool(t, shoal.WithName("x\n")), newPool(t, shoal.WithName(`x\n`)))); err == nil || !strings.Contains(err.Error(), "pools[1]") {
		t.Errorf("two pools that are shown alike: %v", err)
	}
	unnamed := newPool(t)
	if err := newPage(t, shoalhttp.WithPools(unnamed)).Add(unnamed); err == nil {
		t.Error("an unnamed pool was added twice")
	}
	_, err := shoalhttp.New(shoalhttp.WithPools(a, nil, b), shoalhttp.WithControls("short"), shoalhttp.WithHosts("http://x"), nil)
	for _, want := range []string{"pools[1] is nil", `pools[2] is named "same"`, "5 bytes: want at least 16", `WithHosts("http://x")`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	url := serve(t, shoalhttp.Handler(nil))
	if resp, body := ask(t, "GET", url, ""); resp.StatusCode != 500 || !strings.Contains(body, "pools[0] is nil") {
		t.Errorf("%s %s", resp.Status, body)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := http.ListenAndServe(listener.Addr().String(), shoalhttp.Handler(a)); err == nil || errors.Is(err, http.ErrServerClosed) {
		t.Errorf("an address in use: %v", err)
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
