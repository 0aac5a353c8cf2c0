package shoalhttp_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

func TestForeignness(t *testing.T) {
	for function, want := range map[string]int{
		"main.fetch":                        0,
		"main.(*server).run.func1":          0,
		"example.com/app.Run":               0,
		"example.com/app_test.Run":          0,
		"example.com/app/web.(*S).fetch":    0,
		"myapp/web.fetch":                   2, // as if it were Go's own: its path has no dot
		"example.com/apple.Run":             1,
		"gopkg.in/yaml%2ev3.Unmarshal":      1,
		"github.com/a/b.(*T[...]).Do":       1,
		"net/http.(*persistConn).roundTrip": 2,
		"runtime.gopark":                    2,
		"sync.(*Mutex).Lock":                2,
	} {
		if got := shoalhttp.Foreignness(function, "example.com/app"); got != want {
			t.Errorf("%s: %d, want %d", function, got, want)
		}
	}
	if got := shoalhttp.Foreignness("myapp/web.fetch", "myapp"); got != 0 {
		t.Errorf("of a main module without a dot: %d", got)
	}
}

// askHanging hangs inside net/http.
func askHanging(url string, started chan bool) {
	started <- true
	if resp, err := http.Get(url); err == nil {
		resp.Body.Close()
	}
}

func TestStacksAreFolded(t *testing.T) {
	p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(8))
	h := newPage(t, shoalhttp.WithPools(p))
	asked, gate := make(chan bool, 8), make(chan bool)
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- true; <-gate }))
	defer slow.Close()
	defer close(gate)
	started := make(chan bool)
	for range 3 {
		p.Submit(func() { askHanging(slow.URL, started) })
		<-started
	}
	for range 3 {
		<-asked
	}
	hold(t, p, 2)
	var s shoalhttp.Stacks
	read(t, h, "stats.json", new(shoalhttp.Snapshot))
	waitUntil(t, "all wait for the answer", func() bool {
		read(t, h, "stacks.json?pool=1", &s)
		return len(s.Groups) == 2
	})
	if len(s.Tasks) != 5 {
		t.Errorf("%d tasks", len(s.Tasks))
	}
	for _, g := range s.Groups {
		switch {
		case strings.HasSuffix(g.Func, "shoalhttp_test.askHanging") && g.Count == 3 && len(g.Workers) == 3 && strings.Contains(g.Stack, "net/http.(*persistConn).roundTrip("):
		case strings.HasSuffix(g.Func, "shoalhttp_test.hangHere") && g.Count == 2:
		default:
			t.Errorf("%+v", g)
		}
		if !strings.Contains(g.Place, "_test.go:") || strings.Contains(g.Place, "+0x") || g.Age <= 0 {
			t.Errorf("%+v", g)
		}
	}
}

// TestStacksAreTakenOnceASecond: whoever asks again before that gets what was found last.
func TestStacksAreTakenOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(4))
		hold(t, p, 3)
		h := newPage(t, shoalhttp.WithPools(p))
		stacks := func() []shoalhttp.StackRow {
			var s shoalhttp.Stacks
			read(t, h, "stacks.json?pool=1&n=2", &s)
			if len(s.Tasks) != 2 || !strings.Contains(s.Tasks[0].Stack, "shoalhttp_test.hangHere(") {
				t.Fatalf("%+v", s)
			}
			return s.Tasks
		}
		first := stacks()
		time.Sleep(900 * time.Millisecond)
		if again := stacks(); !slices.Equal(again, first) {
			t.Errorf("the process was stopped again: %+v, after %+v", again, first)
		}
		time.Sleep(200 * time.Millisecond)
		if later := stacks(); later[0].Age <= first[0].Age {
			t.Errorf("the stacks are still the old ones: %+v, after %+v", later, first)
		}
	})
}
