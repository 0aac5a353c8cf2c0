package dashboardtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/shoal-go/shoal"
	shoalotel "github.com/shoal-go/shoal/contrib/otel"
	"github.com/shoal-go/shoal/contrib/prom"
	"github.com/shoal-go/shoal/internal/servetest"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

const (
	scrapes  = 41
	interval = 15 * time.Second
)

// A page is what one scrape got, in both formats.
type page struct {
	at             time.Time
	text, protobuf []byte
	otel           []byte // what OpenTelemetry's exporter has of the same, in text
}

// A day is what was scraped of pools in which everything happens that pools count.
type day struct {
	pages    []page
	families []*dto.MetricFamily        // of the last scrape
	otel     []*dto.MetricFamily        // of OpenTelemetry's exporter, of the last scrape
	ran      map[string][]time.Duration // how long the tasks of a pool ran
}

// begun is when the time of the day began.
var begun = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// theDay is the one day of all tests, which takes place in made-up time.
var theDay *day

func scraped(t *testing.T) *day {
	if theDay == nil {
		d := new(day)
		synctest.Test(t, d.live)
		theDay = d
	}
	return theDay
}

func (d *day) live(t *testing.T) {
	quiet := shoal.WithPanicHandler(func(*shoal.PanicError) {})
	web := shoal.Must(shoal.New(shoal.WithName("web"), shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(8),
		shoal.WithFullPolicy(shoal.Reject), shoal.WithTiming(shoal.TimingFull), quiet))
	api := shoal.Must(web.Sub(shoal.WithName("api"), shoal.WithMaxWorkers(1), shoal.WithTiming(shoal.TimingFull)))
	batch := shoal.Must(shoal.New(shoal.WithName("batch"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(2),
		shoal.WithFullPolicy(shoal.DropOldest), shoal.WithTiming(shoal.TimingFull)))
	stuck := shoal.Must(shoal.New(shoal.WithName("stuck"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(shoal.Unbounded),
		shoal.WithStallAfter(time.Minute), shoal.WithSlowTask(time.Minute)))
	durably := shoal.Must(shoal.New(shoal.WithName("durably"), shoal.WithMaxWorkers(1)))
	all := []*shoal.Pool{web, batch, stuck, durably}
	c, err := prom.NewCollector(all...)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	mails := jobstest.NewQueue(time.Hour)
	durable := map[string]jobs.Depther{"mails": mails, "away": away{}}
	queues, err := prom.NewQueueCollector(durable)
	if err != nil {
		t.Fatal(err)
	}
	reg.MustRegister(c, queues)
	ofOTel := prometheus.NewPedanticRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(ofOTel))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	for _, p := range all {
		if _, err := shoalotel.Register(provider, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := shoalotel.RegisterQueues(provider, durable); err != nil {
		t.Fatal(err)
	}
	get := func(reg prometheus.Gatherer, format expfmt.FormatType) []byte {
		handler := promhttp.HandlerFor(reg, promhttp.HandlerOpts{DisableCompression: true})
		req := httptest.NewRequest("GET", "/metrics", nil)
		req.Header.Set("Accept", string(expfmt.NewFormat(format)))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if w.Code != 200 {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
		return w.Body.Bytes()
	}

	d.ran = make(map[string][]time.Duration)
	r := rand.New(rand.NewPCG(1, 0))
	began := time.Now()
	release := make(chan struct{})
	servetest.Start(t, durably, func(context.Context, *jobs.Job) error { <-release; return nil }) // its first job hangs
	for range scrapes {
		d.pages = append(d.pages, page{
			at: begun.Add(time.Since(began)), text: get(reg, expfmt.TypeTextPlain), protobuf: get(reg, expfmt.TypeProtoDelim),
			otel: get(ofOTel, expfmt.TypeTextPlain),
		})

		web.Submit(func() { panic("failed") })
		d.ran["web"] = append(d.ran["web"], 0)
		for range 20 {
			took := time.Duration(float64(time.Millisecond) * (1 + 999*r.Float64()))
			if web.Submit(func() { time.Sleep(took) }) == nil {
				d.ran["web"] = append(d.ran["web"], took)
			}
		}
		api.SubmitWait(context.Background(), func(context.Context) error {
			time.Sleep(time.Second)
			return errors.New("failed")
		})
		d.ran["web/api"] = append(d.ran["web/api"], time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		api.Submit(func() { time.Sleep(time.Second) })
		api.SubmitContext(ctx, func(context.Context) { t.Error("a canceled task ran") })
		cancel()
		d.ran["web/api"] = append(d.ran["web/api"], time.Second)
		for range 5 {
			batch.Submit(func() { time.Sleep(20 * time.Second) })
		}
		stuck.Submit(func() { <-release })
		d.work(t, mails)
		time.Sleep(interval - time.Since(began)%interval)
		synctest.Wait()
	}
	if d.families, err = reg.Gather(); err != nil {
		t.Error(err)
	}
	if d.otel, err = ofOTel.Gather(); err != nil {
		t.Error(err)
	}
	close(release)
	for _, p := range append([]*shoal.Pool{api}, all...) {
		p.Shutdown(context.Background())
	}
}

// away is a queue that does not answer.
type away struct{}

func (away) Depth(context.Context) (jobs.Depth, error) { return jobs.Depth{}, errors.New("away") }

// work is a turn of a worker that does some jobs of a queue and gives up others, and comes too
// seldom. It works for the first half of the day.
func (d *day) work(t *testing.T, q *jobstest.Queue) {
	ctx := context.Background()
	if err := q.Enqueue(ctx, jobs.Message{}, jobs.Message{}, jobs.Message{}, jobs.Message{Delay: time.Hour}); err != nil {
		t.Error(err)
	}
	if len(d.pages) > scrapes/2 {
		return
	}
	ds, err := q.Pull(ctx, 2)
	if err != nil || len(ds) != 2 {
		t.Error(len(ds), err)
		return
	}
	if err := ds[0].Term(ctx, "bad"); err != nil {
		t.Error(err)
	}
	time.AfterFunc(interval+time.Second, func() {
		if err := ds[1].Ack(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A mode is what a scraper takes of histograms.
type mode struct {
	name            string
	protobuf        bool
	classic, native bool
	otel            bool
}

var modes = []mode{
	{"text", false, true, false, false},
	{"protobuf", true, false, true, false},
	{"protobuf, with the classic histograms too", true, true, true, false},
}

// withOTel are the modes, and that in which OpenTelemetry reports the pools.
var withOTel = append(slices.Clone(modes), mode{name: "OpenTelemetry", otel: true})

// parse has Prometheus parse a page, and calls f for every sample.
func (m mode) parse(t *testing.T, p page, f func(l labels.Labels, v float64, h *histogram.Histogram)) {
	t.Helper()
	b, contentType := p.text, string(expfmt.NewFormat(expfmt.TypeTextPlain))
	if m.otel {
		b = p.otel
	}
	if m.protobuf {
		b, contentType = p.protobuf, string(expfmt.NewFormat(expfmt.TypeProtoDelim))
	}
	parser, err := textparse.New(b, contentType, labels.NewSymbolTable(), textparse.ParserOptions{
		KeepClassicOnClassicAndNativeHistograms: m.classic,
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		entry, err := parser.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		var l labels.Labels
		switch entry {
		case textparse.EntrySeries:
			_, at, v := parser.Series()
			parser.Labels(&l)
			if at != nil {
				t.Errorf("%v has the time %d", l, *at)
			}
			f(l, v, nil)
		case textparse.EntryHistogram:
			_, _, h, fh := parser.Histogram()
			parser.Labels(&l)
			if h == nil || fh != nil {
				t.Fatalf("%v is not a histogram of integers", l)
			}
			f(l, 0, h)
		}
	}
}

// store puts the pages into a storage, as a server that scrapes would.
func (m mode) store(t *testing.T, pages []page) *teststorage.TestStorage {
	t.Helper()
	db := teststorage.New(t)
	for _, p := range pages {
		app := db.Appender(context.Background())
		m.parse(t, p, func(l labels.Labels, v float64, h *histogram.Histogram) {
			l = labels.NewBuilder(l).Set("job", "app").Set("instance", "host:8080").Labels()
			var err error
			if h != nil {
				_, err = app.AppendHistogram(0, l, p.at.UnixMilli(), h, nil)
			} else {
				_, err = app.Append(0, l, p.at.UnixMilli(), v)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// Prometheus reads from a page what was gathered, in each of the modes.
func TestPagesParse(t *testing.T) {
	d := scraped(t)
	last := d.pages[len(d.pages)-1]
	want := map[string]int{} // series, by name
	pools := 5
	ofQueues, ofJobs, absent, states := 0, 0, 0, 0
	for _, f := range d.families {
		want[f.GetName()] = pools
		if strings.HasPrefix(f.GetName(), "shoal_jobs_queue_") {
			want[f.GetName()] = len(f.GetMetric())
			ofQueues += len(f.GetMetric())
		} else if strings.HasPrefix(f.GetName(), "shoal_jobs_") { // of durably
			want[f.GetName()] = 1
			ofJobs++
		}
		switch f.GetName() {
		case "shoal_pool_queue_capacity", "shoal_pool_worker_busy_time_seconds_total": // of stuck, and of web/api
			want[f.GetName()]--
			absent++
		case "shoal_pool_worker_count":
			want[f.GetName()] *= 2
			states++
		}
	}
	if ofQueues != 6+1 { // of one that is away there is only that
		t.Errorf("%d series of queues", ofQueues)
	}
	if ofJobs != 12 { // as README.md has it
		t.Errorf("%d series of a pool that works off a queue", ofJobs)
	}
	for _, m := range modes {
		got := map[string]int{}
		for _, p := range d.pages {
			m.parse(t, p, func(l labels.Labels, v float64, h *histogram.Histogram) {
				if h == nil {
					return
				}
				if err := h.Validate(); err != nil {
					t.Errorf("%s: %v: %v", m.name, l, err)
				}
			})
		}
		m.parse(t, last, func(l labels.Labels, v float64, h *histogram.Histogram) { got[l.Get(model.MetricNameLabel)]++ })
		series := 0
		for _, n := range got {
			series += n
		}
		each := map[bool]int{true: 81, false: 27}[m.classic] // as README.md has it
		if m.classic && m.native {
			each += 2
		}
		if series -= ofQueues + ofJobs; series != pools*each-absent || absent != 2 || states != 1 {
			t.Errorf("%s: %d series of %d pools, want %d of each, without %d", m.name, series, pools, each, absent)
		}
		for name, n := range want {
			isHistogram := got[name+"_count"]+got[name+"_bucket"] > 0 || name == "shoal_pool_task_run_duration_seconds" || name == "shoal_pool_task_wait_duration_seconds"
			switch {
			case !isHistogram && got[name] != n:
				t.Errorf("%s: %d of %s, want %d", m.name, got[name], name, n)
			case isHistogram && m.native != (got[name] == n):
				t.Errorf("%s: %d of %s", m.name, got[name], name)
			case isHistogram && m.classic != (got[name+"_count"] == n && got[name+"_sum"] == n && got[name+"_bucket"] == n*26):
				t.Errorf("%s: %d, %d, %d of the classic %s", m.name, got[name+"_count"], got[name+"_sum"], got[name+"_bucket"], name)
			}
		}
	}
	if bytes.Equal(d.pages[0].text, last.text) {
		t.Error("nothing has happened")
	}
}
