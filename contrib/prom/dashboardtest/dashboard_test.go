package dashboardtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// What this test looks at of a dashboard.
type (
	dashboard struct {
		UID, Title    string
		SchemaVersion int
		Panels        []panel
		Templating    struct{ List []variable }
	}
	variable struct {
		Name, Type string
		Datasource *datasource
		Query      any
		Multi      bool
		IncludeAll bool
		AllValue   string
	}
	panel struct {
		ID                       int
		Type, Title, Description string
		Datasource               *datasource
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct {
			Defaults struct {
				Unit       string
				Thresholds struct {
					Mode  string
					Steps []struct {
						Color string
						Value *float64
					}
				}
			}
			Overrides []struct{ Matcher struct{ ID, Options string } }
		}
		Targets []target
		Panels  []panel
	}
	target struct {
		RefID, Expr, LegendFormat string
		Datasource                *datasource
	}
	datasource struct{ Type, UID string }
)

func read(t *testing.T) (d dashboard) {
	t.Helper()
	b, err := os.ReadFile("../dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The schema of dashboards is not to be had for Go. This is what it leaves open, and
// what makes a dashboard that can be used anywhere.
func TestDashboardIsWhole(t *testing.T) {
	d := read(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion != 42 {
		t.Errorf("uid %q, title %q, schema version %d", d.UID, d.Title, d.SchemaVersion)
	}
	source := datasource{"prometheus", "${datasource}"}
	variables := map[string]variable{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v
		if v.Type == "query" && (v.Datasource == nil || *v.Datasource != source) {
			t.Errorf("variable %s has the data source %v", v.Name, v.Datasource)
		}
	}
	if v := variables["datasource"]; v.Type != "datasource" || v.Query != "prometheus" {
		t.Errorf("variable datasource: %+v", v)
	}
	if v := variables["pool"]; v.Type != "query" || !v.Multi || !v.IncludeAll {
		t.Errorf("variable pool: %+v", v)
	}

	ids := map[int]bool{}
	cells := map[[2]int]string{}
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("%s: the id %d occurs twice, or is 0", p.Title, p.ID)
		}
		ids[p.ID] = true
		if g := p.GridPos; g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s: is at %+v", p.Title, g)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if cells[cell] != "" {
					t.Fatalf("%s lies on %s", p.Title, cells[cell])
				}
				cells[cell] = p.Title
			}
		}
		if p.Title == "" {
			t.Errorf("panel %d has no title", p.ID)
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%s: has no description, unit or query", p.Title)
		}
		if p.Datasource == nil || *p.Datasource != source {
			t.Errorf("%s: has the data source %v", p.Title, p.Datasource)
		}
		last := math.Inf(-1)
		for i, s := range p.FieldConfig.Defaults.Thresholds.Steps {
			if (i == 0) != (s.Value == nil) || s.Value != nil && *s.Value <= last {
				t.Errorf("%s: thresholds do not ascend", p.Title)
			} else if s.Value != nil {
				last = *s.Value
			}
		}
		if len(p.FieldConfig.Defaults.Thresholds.Steps) == 0 {
			t.Errorf("%s: no thresholds", p.Title)
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if q.RefID == "" || refs[q.RefID] || q.LegendFormat == "" {
				t.Errorf("%s: query %q has no id of its own, or no legend", p.Title, q.RefID)
			}
			refs[q.RefID] = true
			if q.Datasource == nil || *q.Datasource != source {
				t.Errorf("%s: query %s has the data source %v", p.Title, q.RefID, q.Datasource)
			}
			for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if _, is := variables[m[1]]; !is && m[1] != "__rate_interval" {
					t.Errorf("%s: query %s has the variable %s", p.Title, q.RefID, m[1])
				}
			}
		}
		for _, o := range p.FieldConfig.Overrides {
			if o.Matcher.ID != "byFrameRefID" || !refs[o.Matcher.Options] {
				t.Errorf("%s: override of %v", p.Title, o.Matcher)
			}
		}
	}
}

// withVariables puts in what Grafana does: All, and four times the scrape interval.
func withVariables(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$pool", ".*").Replace(expr)
}

var promParser = parser.NewParser(parser.Options{})

// exported are the names of all series, as native histograms and classic ones.
func exported(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, f := range scraped(t).otel { // the quantiles, which are there for want of histograms
		if strings.Contains(f.GetName(), "_p50_") || strings.Contains(f.GetName(), "_p99_") {
			names[f.GetName()] = true
		}
	}
	for _, f := range scraped(t).families {
		names[f.GetName()] = true
		if f.GetType().String() == "HISTOGRAM" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[f.GetName()+suffix] = true
			}
		}
	}
	return names
}

// selectors parses expr and returns the names and labels that it selects by.
func selectors(t *testing.T, expr string) (names []string, matchers []string) {
	t.Helper()
	e, err := promParser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	for _, ms := range parser.ExtractSelectors(e) {
		for _, m := range ms {
			if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
				names = append(names, m.Value)
			} else {
				matchers = append(matchers, m.Name)
			}
		}
	}
	return names, matchers
}

func TestQueriesAskForWhatIsExported(t *testing.T) {
	names := exported(t)
	for _, p := range read(t).Panels {
		for _, q := range p.Targets {
			selected, matchers := selectors(t, withVariables(q.Expr))
			for _, name := range selected {
				if !names[name] {
					t.Errorf("%s: there is no %s", p.Title, name)
				}
			}
			wanted := []string{"job", "instance", "shoal_pool_name"}
			if strings.Contains(q.Expr, "shoal_jobs_queue_") { // of a queue, whatever pools work at it
				wanted = wanted[:2]
			}
			for _, label := range wanted {
				n := 0
				for _, m := range matchers {
					if m == label {
						n++
					}
				}
				if len(selected) == 0 || n != len(selected) {
					t.Errorf("%s: query %s does not always select by %s", p.Title, q.RefID, label)
				}
			}
		}
	}
	for _, v := range read(t).Templating.List {
		if v.Type != "query" {
			continue
		}
		query, _ := v.Query.(map[string]any)["query"].(string)
		m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(query)
		if m == nil || m[2] != v.Name && (m[2] != "shoal_pool_name" || v.Name != "pool") {
			t.Errorf("variable %s is %q", v.Name, query)
			continue
		}
		selected, _ := selectors(t, withVariables(m[1]))
		if len(selected) != 1 || !names[selected[0]] {
			t.Errorf("variable %s asks for %q", v.Name, selected)
		}
	}
}

// query evaluates expr at the end of the day, and all day.
func query(t *testing.T, db storage.Queryable, expr string) (promql.Vector, promql.Matrix) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promParser,
	})
	defer engine.Close()
	pages := scraped(t).pages
	end := pages[len(pages)-1].at
	run := func(q promql.Query, err error) *promql.Result {
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		r := q.Exec(context.Background())
		if r.Err != nil || len(r.Warnings) > 0 {
			t.Fatalf("%s: %v, %v", expr, r.Err, r.Warnings)
		}
		return r
	}
	now := run(engine.NewInstantQuery(context.Background(), db, nil, expr, end))
	v, err := now.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	then := run(engine.NewRangeQuery(context.Background(), db, nil, expr, begun, end, interval))
	m, err := then.Matrix()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	// The result belongs to the query.
	return slices.Clone(v), m
}

func TestQueriesFindSomething(t *testing.T) {
	d := read(t)
	for _, m := range withOTel {
		t.Run(m.name, func(t *testing.T) {
			db := m.store(t, scraped(t).pages)
			for _, p := range d.Panels {
				for _, q := range p.Targets {
					now, then := query(t, db, withVariables(q.Expr))
					if len(now) == 0 || len(then) == 0 {
						t.Errorf("%s: %s finds nothing", p.Title, q.Expr)
					}
					some := false
					for _, s := range then {
						for _, f := range s.Floats {
							some = some || f.F > 0
						}
					}
					if !some && !strings.Contains(q.Expr, "blocked") && p.Title != "State" {
						t.Errorf("%s: %s is never above 0 or a number", p.Title, q.Expr)
					}
				}
			}
		})
	}
}

// The quantiles that the dashboard shows are those of the tasks, within the error
// that README.md states for native histograms, and within a bucket for classic ones.
func TestQuantiles(t *testing.T) {
	expr := map[float64]string{}
	for _, p := range read(t).Panels {
		if strings.HasPrefix(p.Title, "Run") {
			expr[0.5], expr[0.99] = p.Targets[0].Expr, p.Targets[1].Expr
		}
	}
	d := scraped(t)
	for _, m := range modes {
		db := m.store(t, d.pages)
		for q, e := range expr {
			e = strings.ReplaceAll(e, "$__rate_interval", "10m")
			now, _ := query(t, db, withVariables(e))
			seen := 0
			for _, s := range now {
				ran := slices.Sorted(slices.Values(d.ran[s.Metric.Get("shoal_pool_name")]))
				if len(ran) == 0 {
					continue
				}
				seen++
				// rate and histogram_quantile may each be off by a task.
				rank := int(math.Ceil(q * float64(len(ran))))
				low, high := ran[max(rank-3, 0)].Seconds(), ran[min(rank+1, len(ran)-1)].Seconds()
				if m.native {
					low, high = low*0.957, high*1.11
				} else {
					low, high = low/2, high*2
				}
				if s.F < low || s.F > high {
					t.Errorf("%s: the %v-quantile of %s is %v, want %v to %v", m.name, q, s.Metric, s.F, low, high)
				}
			}
			if seen != len(d.ran) {
				t.Errorf("%s: the quantiles of %d pools, want %d", m.name, seen, len(d.ran))
			}
		}
	}
}

// The dashboard's utilization is that of the whole interval, whatever a scrape sees.
func TestUtilization(t *testing.T) {
	var expr string
	for _, p := range read(t).Panels {
		if p.Title == "Utilisation" {
			expr = p.Targets[0].Expr
		}
	}
	d := scraped(t)
	for _, m := range withOTel {
		now, _ := query(t, m.store(t, d.pages), withVariables(strings.ReplaceAll(expr, "$__rate_interval", "5m")))
		got := map[string]float64{}
		for _, s := range now {
			got[s.Metric.Get("shoal_pool_name")] = s.F
		}
		var ran time.Duration // what the workers of web did, of 4 and its sub-pool's tasks among it
		for _, pool := range []string{"web", "web/api"} {
			for _, took := range d.ran[pool] {
				ran += took
			}
		}
		web := ran.Seconds() / (scrapes * interval.Seconds()) / 4
		if math.Abs(got["web"]-web) > 0.02 || got["batch"] < 0.99 || got["stuck"] < 0.99 || got["durably"] < 0.99 || len(got) != 5 {
			t.Errorf("%s: %v, want web at %v and the others at 1", m.name, got, web)
		}
	}
}

// What both modules report has one name, one kind and the same labels, so that a query does
// for both.
func TestOTelHasTheSameNames(t *testing.T) {
	d := scraped(t)
	shape := func(f *dto.MetricFamily) string {
		var ls []string
		for _, m := range f.GetMetric() {
			var l []string
			for _, p := range m.GetLabel() {
				if !strings.HasPrefix(p.GetName(), "otel_scope_") {
					l = append(l, p.String())
				}
			}
			ls = append(ls, fmt.Sprint(l, m.GetCounter().GetValue(), m.GetGauge().GetValue()))
		}
		slices.Sort(ls)
		return fmt.Sprint(f.GetType(), ls)
	}
	of := map[string]string{}
	for _, f := range d.otel {
		of[f.GetName()] = shape(f)
	}
	onlyHere := []string{"shoal_pool_worker_peak", "shoal_pool_task_wait_duration_seconds", "shoal_pool_task_run_duration_seconds"}
	for _, f := range d.families {
		if slices.Contains(onlyHere, f.GetName()) {
			continue
		}
		if have, want := of[f.GetName()], shape(f); have != want {
			t.Errorf("%s is\n%s, by OpenTelemetry\n%s", f.GetName(), want, have)
		}
		delete(of, f.GetName())
	}
	for name := range of { // the quantiles and means in place of histograms, and a share that may be computed
		if !strings.HasPrefix(name, "shoal_pool_task_wait_") && !strings.HasPrefix(name, "shoal_pool_task_run_") &&
			name != "shoal_pool_queue_utilization_ratio" && name != "target_info" {
			t.Errorf("only OpenTelemetry has %s", name)
		}
	}
}

// The queries in README.md are as good as those of the dashboard.
func TestReadmeQueries(t *testing.T) {
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := exported(t)
	blocks := regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(string(b), -1)
	if len(blocks) == 0 {
		t.Error("there are none")
	}
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			expr, _, _ := strings.Cut(line, "#")
			if expr = strings.TrimSpace(expr); expr == "" {
				continue
			}
			selected, _ := selectors(t, expr)
			for _, name := range selected {
				if !names[name] {
					t.Errorf("%s: there is no %s", expr, name)
				}
			}
			found := false
			for _, m := range withOTel {
				now, _ := query(t, m.store(t, scraped(t).pages), expr)
				found = found || len(now) > 0
				if m.otel && len(now) == 0 && !strings.Contains(expr, "_duration_seconds") {
					t.Error(fmt.Sprint(expr, " finds nothing that OpenTelemetry reports"))
				}
			}
			if !found {
				t.Error(fmt.Sprint(expr, " finds nothing"))
			}
		}
	}
}
