package shoalhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

// A server that shuts down does not wait for those who look at the page.
func TestStreamsEndWithTheirServer(t *testing.T) {
	h := newPage(t, shoalhttp.WithPools(newPool(t, shoal.WithName("a"))))
	for range 2 { // with a server each
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: h}
		go server.Serve(l)
		var bodies []io.ReadCloser
		for _, name := range []string{"events", "changes", "events"} {
			resp, err := http.Get("http://" + l.Addr().String() + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, resp.Body)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		cancel()
		for _, b := range bodies {
			if _, err := io.Copy(io.Discard, b); err != nil {
				t.Errorf("a stream ends with %v", err)
			}
			b.Close()
		}
	}
}

// Nor does it wait for the first stream, which begins while the server shuts down.
func TestAStreamThatBeginsWhileItsServerShutsDown(t *testing.T) {
	h := newPage(t, shoalhttp.WithPools(newPool(t, shoal.WithName("a"))))
	begins, down := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "events") {
			close(begins)
			<-down
		}
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	get := func(name string) {
		resp, err := http.Get(s.URL + "/" + name)
		if err != nil {
			t.Error(err)
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	get("stats.json")
	s.Config.RegisterOnShutdown(func() { close(down) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		get("events")
	}()
	<-begins
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Config.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	<-ended
}

// What the page found of a pool does not keep it once it was removed.
func TestARemovedPoolIsNotKeptByItsStacks(t *testing.T) {
	h := newPage(t)
	gone := func() weak.Pointer[shoal.Pool] {
		p := shoal.Must(shoal.New(shoal.WithName("a")))
		defer p.Close()
		h.Add(p)
		defer h.Remove(p)
		var s shoalhttp.Stacks
		read(t, h, "stacks.json?pool=1", &s)
		return weak.Make(p)
	}()
	waitUntil(t, "the pool is collected", func() bool { runtime.GC(); return gone.Value() == nil })
	runtime.KeepAlive(h)
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
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(c, "GET /debug/shoal/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-ended
	if status, err := bufio.NewReader(c).ReadString('\n'); status != "HTTP/1.1 200 OK\r\n" {
		t.Errorf("it was sent %q, %v", status, err)
	}
	waitUntil(t, "it is given up", func() bool { n, runs := shoalhttp.Viewers(h); return n == 0 && !runs })
}

// Nobody looks, and the page has no pool any more: what viewers were told is old.
func TestANewViewerIsSentWhatIsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("a"))
		h := newPage(t, shoalhttp.WithPools(p))
		first := func() (s shoalhttp.Snapshot) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest("GET", "/debug/shoal/events", nil).WithContext(ctx))
			_, data, _ := strings.Cut(rec.Body.String(), "data: ")
			if err := json.NewDecoder(strings.NewReader(data)).Decode(&s); err != nil {
				t.Fatal(rec.Body, err)
			}
			return s
		}
		if s := first(); len(s.Pools) != 1 {
			t.Errorf("%+v", s)
		}
		h.Remove(p)
		time.Sleep(24 * time.Hour)
		if s := first(); len(s.Pools) != 0 || s.Time != float64(time.Now().UnixMilli()-1)/1000 {
			t.Errorf("%+v", s)
		}
	})
}
