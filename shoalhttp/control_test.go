package shoalhttp_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

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
	// A link to the page may be followed. As a part of another page it is refused.
	for mode, want := range map[string]int{"navigate": 200, "no-cors": 403, "cors": 403, "same-origin": 403, "websocket": 403} {
		if resp, _ := ask(t, "GET", url, "", header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", mode)); resp.StatusCode != want {
			t.Errorf("the page, asked for by another site (%s): %s", mode, resp.Status)
		}
	}
	if resp, _ := ask(t, "GET", url, "", header("Sec-Fetch-Site", "same-origin"), header("Sec-Fetch-Mode", "cors")); resp.StatusCode != 200 {
		t.Errorf("the page, asked for by itself: %s", resp.Status)
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
		{"two commands", "POST", command(0, `"action":"pause"`) + "{}", nil, 400, "more follows", shoal.Open, 5},
		{"trailing bytes", "POST", command(0, `"action":"pause"`) + " x", nil, 400, "more follows", shoal.Open, 5},
		{"a line break", "POST", command(0, `"action":"resize","min":0,"max":5`) + "\n", nil, 204, "", shoal.Open, 5},
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
