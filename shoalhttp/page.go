// Package shoalhttp serves a live page about pools. The page shows what each pool does
// now, why it is slow, and which task hangs.
//
//	mux.Handle("/debug/shoal/", shoalhttp.Handler(pools...))
//
// For the last ten minutes, whether somebody looked or not, the page shows the tasks per
// second, the queue lengths, the workers, and the times that tasks wait and run. It lists the
// workers with the ages of their tasks and, on demand, the stacks of the oldest running tasks.
// Sub-pools appear below their parents. Other programs can read the same below the page's own
// address:
//
//	stats.json                      a [Snapshot] of all pools
//	events                          a [Snapshot] each second, as server-sent events
//	changes                         the same, but after the first one only what has changed: rows and fields
//	                                that are as before are left out, numbers with a fraction in a row, but
//	                                not in its sources, are rounded to four digits, and "partial" is true
//	history.json?pool=ID            the [History] of a pool: ten minutes, one point every five seconds
//	workers.json?pool=ID&limit=N    the [Workers] of a pool: N is 100 by default, at most 10,000
//	stacks.json?pool=ID&n=N         the [Stacks] of its oldest tasks, also folded: N is 10 by default, at most 100
//	queues.json                     the durable [Queues]
//
// Within a major version, fields may be added to these types, but none is removed or
// changes its meaning.
//
// The package has everything that the page needs. The page loads nothing from elsewhere.
//
// # Access
//
// Like net/http/pprof, the page reveals much about a program and asks for no login. So
// serve it where only those who may see it can reach it, for example on a loopback
// address. The page refuses requests that other web sites make through a browser. Only a
// link of theirs to the page itself may be followed. On a loopback address it also refuses
// requests for a host name other than localhost, which DNS rebinding uses; [WithHosts]
// allows more names. The page can change pools only with [WithControls].
//
// # Durable queues
//
// [WithQueue] adds a durable queue of package jobs to the page: how many of its jobs are ready,
// delayed, leased and dead letters, and its lag: for how long the oldest ready one has waited.
// These figures are those of the whole queue, whichever processes work on it; the figures of a pool
// are those of this process. With [WithControls], the page also lists the dead letters with their
// last errors and outputs, a hundred at once and the newest first. It retries and deletes them, one
// of them or all of a type or an age, after a confirmation.
//
// If the name of [jobs.WithName] is that of WithQueue, the page shows which pools work on the queue.
// Then the row of the queue has the problems of these pools too, and the row of a pool those of the
// queue.
//
// The page asks a queue only while somebody looks, at most about every 2 seconds, and less often if
// its answers take long. A queue has 5 seconds to answer. If it takes more than half a second, the
// page shows what it knew before.
//
// # Verdicts
//
// For each pool the page says in sentences what is wrong; [PoolRow] has them as Verdicts. These
// are problems:
//
//   - stalled: all workers are busy and tasks wait, but nothing has ended for twice as long as
//     99 of 100 tasks take, for 2 seconds at least and a minute at most (5 seconds if no task
//     was measured so far)
//   - hanging: a task has run for 10 seconds, and for ten times as long as 99 of 100 tasks
//     take (30 seconds if no task was measured so far); if it is a job, that is named
//   - failing: a tenth or more of the tasks that ended in the last minute failed; if they were
//     jobs, the last one and its error are named
//   - rejecting, dropping, slow tasks, stalled before, dead letters, time limit: there were
//     any in the last minute
//   - queue full, submitters wait: now
//   - queue away: a Pull of a durable queue failed in the last 20 seconds
//   - paused, while tasks wait: the pool, or one above it
//
// And for each durable queue, in its [QueueRow]:
//
//   - not worked: one that is ready has waited for 10 seconds, and no job is leased, nor was
//     one at the measurement before, if there was one
//   - behind: one that is ready has waited for a minute
//   - dead letters: there are any
//   - queue away: it cannot be measured
//
// Pools and pages read clocks rarely. A time that something has been going on counts from when
// it was first seen, so the page says "at least". A page sees it 5 seconds late at most.
//
// # Cost
//
// A page looks at its pools by itself: every second while somebody reads events, else every
// five. That takes up to 10 µs for each pool. There is a timer and no goroutine between two
// looks. A pool that has never worked keeps about 4 kB, one that has 13 kB, a busy one about
// 32 kB; from the 2,001st pool on it keeps a minute instead of ten. The looks end when all
// pools of the page are closed or removed, or when the page is not referenced any more. The
// page keeps pools that were added in memory until they are removed, but no sub-pools.
//
// Streams are compressed for clients that take gzip, once for all of them. A browser that shows
// 1,000 pools is sent 0.2 kB a second while none works, and 44 kB while all do, where snapshots
// would be 776 kB and 870 kB. At most 64 clients read streams; one more ends that of the oldest.
// Streams end when [http.Server.Shutdown] is called for their server, unless the server had no request
// for the page before.
//
// stats.json has 0.8 kB for each pool and sub-pool: with 5,000 sub-pools it is 3.9 MB, and takes 0.1
// to 0.2 s to make.
package shoalhttp

import (
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
)

// An Option configures [New].
type Option interface{ apply(*Page) error }

type option func(*Page) error

func (o option) apply(h *Page) error { return o(h) }

// WithPools adds pools to the page, as [Page.Add] does.
func WithPools(pools ...*shoal.Pool) Option {
	return option(func(h *Page) error { return h.Add(pools...) })
}

// minToken is the length of the shortest token, in bytes.
const minToken = 16

// WithControls lets viewers who know token pause, resume and resize pools, and read, retry and
// delete the dead letters of the queues of [WithQueue]. The page asks for
// the token, which must have at least 16 bytes, and for a confirmation. A resize to a minimum
// above 1,000 or a maximum above 100,000 workers is refused, unless the pool has as many
// already; for more, call [shoal.Pool.Resize]. Such a request must be a POST with the
// token. A browser's request must come from the page's own origin. Each change is
// logged by [log/slog.Info].
func WithControls(token string) Option {
	return option(func(h *Page) error {
		if len(token) < minToken {
			return fmt.Errorf("shoalhttp: WithControls: the token has %d bytes: want at least %d", len(token), minToken)
		}
		h.token = sha256.Sum256([]byte(token))
		h.controls = true
		return nil
	})
}

// WithHosts makes the page answer requests for these host names on a loopback address too,
// for example if a proxy on the same machine passes them on. The names have no port.
func WithHosts(hosts ...string) Option {
	return option(func(h *Page) error {
		for _, host := range hosts {
			if host == "" || strings.ContainsAny(host, "/: ") {
				return fmt.Errorf("shoalhttp: WithHosts(%q): want a host name without port", host)
			}
			h.hosts = append(h.hosts, strings.ToLower(host))
		}
		return nil
	})
}

// A Page is an [http.Handler] that serves the page, made by [New]. Its methods may be called
// by several goroutines.
type Page struct {
	started  string // tells this page from one that was in its place before
	hosts    []string
	controls bool
	token    [sha256.Size]byte // its hash
	cross    *http.CrossOriginProtection
	stacks   stackCache

	queuesMu sync.Mutex
	queues   []*watched

	mu      sync.Mutex
	lastID  int
	pools   []*tracked
	sample  sample
	ticks   ticks
	viewers []*viewer                          // the oldest first
	servers map[weak.Pointer[http.Server]]bool // whose shutdown ends them; true: it has begun
	told    told
	timer   *time.Timer // of the next look; see [Page.lookOnLocked]
	pace    time.Duration
}

// New returns a page. If options are invalid, for example because a pool is nil or two pools
// have the same name, New returns an error that names all of these problems. A nil option is
// ignored.
func New(opts ...Option) (*Page, error) {
	h := &Page{stacks: stackCache{free: make(chan struct{}, 1)}, started: time.Now().UTC().Format(time.RFC3339Nano), cross: http.NewCrossOriginProtection()}
	var errs []error
	for _, o := range opts {
		if o != nil {
			errs = append(errs, o.apply(h))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return h, nil
}

// Handler returns a page of the given pools, made by [New] with [WithPools]. If New returns an
// error, Handler logs it, and the handler answers every request with it and status 500.
func Handler(pools ...*shoal.Pool) http.Handler {
	h, err := New(WithPools(pools...))
	if err == nil {
		return h
	}
	slog.Error("shoalhttp: making the page failed; the handler answers with the error", "error", err)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	})
}

//go:embed assets
var assets embed.FS

// An asset is a file that the page needs.
type asset struct {
	kind string
	data []byte
}

// A site is what the page is made of.
type site struct {
	files   map[string]asset
	version string // a hash of the files
	index   *template.Template
}

// theSite is made when it is asked for first: nothing is done at import.
var theSite = sync.OnceValue(func() *site {
	s := &site{files: make(map[string]asset)}
	hash := sha256.New()
	for _, f := range []struct{ name, kind string }{
		{"app.js", "text/javascript; charset=utf-8"},
		{"style.css", "text/css; charset=utf-8"},
		{"uplot.js", "text/javascript; charset=utf-8"},
		{"uplot.css", "text/css; charset=utf-8"},
	} {
		data := mustRead(f.name)
		s.files[f.name] = asset{f.kind, data}
		hash.Write(data)
	}
	s.version = fmt.Sprintf("%.8x", hash.Sum(nil))
	page := template.New("index.html").Funcs(functions)
	s.index = template.Must(page.Parse(string(mustRead("index.html"))))
	return s
})

func mustRead(name string) []byte {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return data
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP serves the page and its parts. The last element of the path chooses the part, so
// the page may be registered below any path that ends with a slash.
func (h *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	// Of a client that does not read. Where that is not supported it is up to the
	// server; events has its own.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(3 * patience))
	if !h.knows(r) {
		http.Error(w, fmt.Sprintf("shoalhttp: refused: the host %q on a loopback address: want localhost, an IP address, or a host of WithHosts", r.Host), http.StatusForbidden)
		return
	}
	h.mu.Lock()
	h.shutsDownLocked(r)
	h.mu.Unlock()
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch name {
	case "control":
		h.control(w, r)
		return
	case "dead":
		h.dead(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "shoalhttp: want the method GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	mode := r.Header.Get("Sec-Fetch-Mode")
	followed := name == "" && (mode == "navigate" || mode == "")
	if from := r.Header.Get("Sec-Fetch-Site"); (from == "cross-site" || from == "same-site") && !followed {
		http.Error(w, "shoalhttp: refused: the request comes from another site", http.StatusForbidden)
		return
	}
	site := theSite()
	if f, ok := site.files[name]; ok {
		header.Set("Content-Type", f.kind)
		if r.URL.Query().Get("v") == site.version {
			header.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		w.Write(f.data)
		return
	}
	switch name {
	case "":
		header.Set("Content-Type", "text/html; charset=utf-8")
		h.measureQueues(r.Context(), pageWait, true)
		snapshot := h.judged()
		site.index.Execute(w, page{snapshot, h.queueRows(snapshot.Pools), site.version, h.controls}) // an error is that the client is gone
	case "stats.json":
		_, data := h.latest()
		header.Set("Content-Type", "application/json")
		w.Write(data)
	case "events":
		h.serveEvents(w, r, false)
	case "changes":
		h.serveEvents(w, r, true)
	case "queues.json":
		h.serveQueues(w, r)
	case "history.json":
		h.serveHistory(w, r)
	case "workers.json":
		h.serveWorkers(w, r)
	case "stacks.json":
		h.serveStacks(w, r)
	default:
		http.NotFound(w, r)
	}
}

// A page is what the template is given.
type page struct {
	Snapshot *Snapshot
	Queues   []QueueRow
	Version  string
	Controls bool
}

// knows reports whether a request for that host may be answered.
func (h *Page) knows(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true // not from a server of net/http
	}
	if at, ok := local.(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host) != nil || slices.Contains(h.hosts, host)
}

// number is the value of a parameter of r, or what is to be used where there is none.
// If it is not within 1 … most the error says so.
func number(r *http.Request, name string, otherwise, most int) (int, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("shoalhttp: %s=%s: want 1 … %d", name, s, most)
	}
	return n, nil
}

// poolOf is the pool that r is about. Without one it answers r.
func (h *Page) poolOf(w http.ResponseWriter, r *http.Request) (*tracked, *shoal.Pool) {
	id, err := strconv.Atoi(r.URL.Query().Get("pool"))
	if err == nil {
		if t, p := h.find(id); t != nil {
			return t, p
		}
	}
	http.Error(w, fmt.Sprintf("shoalhttp: pool=%s: there is no such pool; stats.json lists the IDs", r.URL.Query().Get("pool")), http.StatusNotFound)
	return nil, nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // an error is that the client is gone
}
