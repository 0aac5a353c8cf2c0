// Package report writes what a race found as files: data, tables, plots, and a
// page that holds all of it.
package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/seeds"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/show"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/where"
)

//go:embed report.html
var pageText string

var page = template.Must(template.New("report.html").Funcs(template.FuncMap{
	"figure": show.Figure, "ratio": show.Ratio, "spread": show.Spread, "what": show.What,
}).Parse(pageText))

// Write writes results.json, results.txt, tables.md, report.html and
// plots/*.svg to the folder dir.
func Write(dir string, r *race.Results) error {
	plots := filepath.Join(dir, "plots")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	write := func(name string, fill func(*bytes.Buffer) error) error {
		var b bytes.Buffer
		if err := fill(&b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		// An earlier report stays whole until this one is.
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file+".new", b.Bytes(), 0o666); err != nil {
			return err
		}
		return os.Rename(file+".new", file)
	}
	err := cmp.Or(
		write("results.json", func(b *bytes.Buffer) error { return r.WriteJSON(b) }),
		write("results.txt", func(b *bytes.Buffer) error { return r.WriteBench(b) }),
		write("tables.md", func(b *bytes.Buffer) error { return Tables(b, r, nil) }),
	)
	if err == nil {
		err = os.MkdirAll(plots, 0o777)
	}
	if err != nil {
		return err
	}
	p := newPageData(r)
	for _, k := range p.Kinds {
		for _, s := range k.Sections {
			if s.file == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(plots, s.file), s.svg, 0o666); err != nil {
				return err
			}
		}
	}
	if p.err != nil {
		return p.err
	}
	return write("report.html", func(b *bytes.Buffer) error { return page.Execute(b, p) })
}

type pageData struct {
	*race.Results
	Noise    string
	Lost     []lostData // the worst first
	Kinds    []kindData
	Seeds    []seeds.Table
	Failures []string
	Missing  int // measurements that an interrupt prevented
	err      error
}

// lostData is a row, and unit, that shoal has lost.
type lostData struct {
	Kind, Title, Feel, Unit string
	Shoal, Best             race.Figure
	Ratio                   float64
	Peer                    string
}

type kindData struct {
	kind
	Answer   answer
	Sections []sectionData
}

// sectionData is one row of one kind, or the plot of a whole family.
type sectionData struct {
	Title, Feel string
	Command     string
	Units       []unitData
	Plot        template.HTML
	Verdict     string // a CSS class
	Ratio       string
	Peer        string
	Where       string // shoal's time went

	file string
	svg  []byte
}

type unitData struct {
	Unit  string
	Lines []lineData
}

type lineData struct {
	Subject string
	Class   string
	Figure  race.Figure
	Ratio   float64 // of this subject to shoal
}

func newPageData(r *race.Results) *pageData {
	p := &pageData{Results: r, Seeds: seeds.Tables(r)}
	if r.Machine.Noisy() {
		p.Noise = show.Noise(r.Machine)
	}
	for _, row := range r.Rows {
		p.Missing += len(row.Subjects) * r.Rounds
	}
	p.Missing -= len(r.Measurements)
	for _, k := range kinds {
		d := kindData{kind: k}
		var standings []race.Standing
		var rows []race.Row
		for _, row := range r.Rows {
			if !k.rows(row) {
				continue
			}
			s := r.Standing(row, row.Units[0])
			standings = append(standings, s)
			rows = append(rows, row)
			for _, l := range s.Losers {
				p.Failures = append(p.Failures, row.Key()+", "+l)
			}
			d.Sections = append(d.Sections, p.section(row, s))
			for _, unit := range row.Units {
				if s := r.Standing(row, unit); s.Verdict() == race.Loss {
					p.Lost = append(p.Lost, lostData{k.ID, row.What, row.Feel, unit, s.Shoal, s.Best, s.Ratio, s.Peer})
				}
			}
		}
		if len(rows) == 0 {
			continue
		}
		if k.ID == "scale" && len(rows) > 1 && !p.SeveralProcs() {
			if s := p.scale(rows); s.file != "" {
				d.Sections = append([]sectionData{s}, d.Sections...)
			}
		}
		d.Answer = answerFor(standings)
		p.Kinds = append(p.Kinds, d)
	}
	slices.SortStableFunc(p.Lost, func(a, b lostData) int { return -cmp.Compare(a.Ratio, b.Ratio) })
	slices.Sort(p.Failures)
	p.Failures = slices.Compact(p.Failures)
	return p
}

func (p *pageData) section(row race.Row, s race.Standing) sectionData {
	d := sectionData{
		Title: row.What, Feel: row.Feel, Command: p.command("^"+regexp.QuoteMeta(row.Name)+"$", row),
		Verdict: map[race.Verdict]string{race.Win: "win", race.Level: "level", race.Loss: "loss"}[s.Verdict()],
		Ratio:   show.Ratio(s.Ratio), Peer: s.Peer,
	}
	if p.NamesProcs(row) {
		d.Title += fmt.Sprintf(" (GOMAXPROCS %d)", row.Procs)
	}
	if row.Profile != nil && row.Profile.Samples > 0 {
		var parts []string
		for _, part := range where.Parts {
			if share := row.Profile.Shares[part]; share >= 0.005 {
				parts = append(parts, fmt.Sprintf("%s %s", part, show.Percent(share)))
			}
		}
		d.Where = fmt.Sprintf("%s; CPUs busy %s", strings.Join(parts, ", "), show.Percent(row.Profile.Busy))
	}
	for _, unit := range row.Units {
		u := unitData{Unit: unit}
		shoal := p.Figure(row, "shoal", unit)
		for _, subject := range row.Subjects {
			l := lineData{Subject: subject, Figure: p.Figure(row, subject, unit), Ratio: math.NaN()}
			if shoal.OK() && shoal.Median > 0 {
				l.Ratio = l.Figure.Median / shoal.Median
			}
			switch subject {
			case "shoal", bench.Baseline:
				l.Class = subject
			}
			u.Lines = append(u.Lines, l)
		}
		slices.SortStableFunc(u.Lines, func(a, b lineData) int {
			if a.Figure.OK() != b.Figure.OK() {
				if a.Figure.OK() {
					return -1
				}
				return +1
			}
			return cmp.Compare(a.Figure.Median, b.Figure.Median)
		})
		d.Units = append(d.Units, u)
	}
	p.draw(&d, row.Key(), func(light bool) ([]byte, error) { return barPlot(p.Results, row, row.Units[0], light) })
	return d
}

func (p *pageData) scale(rows []race.Row) sectionData {
	d := sectionData{Title: "All sizes", Command: p.command("^Scale/", rows[0])}
	p.draw(&d, "Scale", func(light bool) ([]byte, error) { return scalePlot(p.Results, rows, light) })
	return d
}

// draw makes a plot for its file, on white, and one for the page, on what is
// there.
func (p *pageData) draw(d *sectionData, name string, plot func(light bool) ([]byte, error)) {
	svg, err := plot(true)
	if err == nil && svg != nil {
		d.svg, d.file = svg, PlotFile(name)
		svg, err = plot(false)
		d.Plot = inline(svg, d.Title)
	}
	p.err = cmp.Or(p.err, err)
}

// command repeats what a plot shows.
func (p *pageData) command(pattern string, row race.Row) string {
	c := fmt.Sprintf("go run ./cmd/shoal-bench -run '%s' -count %d", pattern, p.Rounds)
	if p.NamesProcs(row) {
		c += fmt.Sprintf(" -procs %d", row.Procs)
	}
	return c
}

// PlotFile is the name of the file with the plot of a row, or of a family.
func PlotFile(name string) string {
	return race.FileName(name) + ".svg"
}

var svgTag = regexp.MustCompile(`(?s)^.*?<svg width="[^"]*" height="[^"]*"`)

// inline makes an SVG file part of a page, which sets its colours and size.
func inline(svg []byte, title string) template.HTML {
	svg = svgTag.ReplaceAll(svg, []byte(`<svg role="img" aria-label="`+template.HTMLEscapeString(title)+`"`))
	return template.HTML(svg)
}
