package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/show"
)

// Colours that colour-blind people tell apart, on white and on black: shoal is
// the strong one, and it is named everywhere.
var (
	shoalColour    = color.RGBA{0x1f, 0x77, 0xd4, 0xff}
	otherColour    = color.RGBA{0x9a, 0xa3, 0xad, 0xff}
	baselineColour = color.RGBA{0xd9, 0x8b, 0x1e, 0xff}
)

type bar struct {
	subject string
	figure  race.Figure
}

// barPlot draws the subjects of a row, the fastest at the top.
func barPlot(r *race.Results, row race.Row, unit string, light bool) ([]byte, error) {
	var bars []bar
	for _, s := range row.Subjects {
		if f := r.Figure(row, s, unit); f.OK() {
			bars = append(bars, bar{s, f})
		}
	}
	if len(bars) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(bars, func(a, b bar) int {
		switch { // the first is drawn at the bottom
		case a.figure.Median > b.figure.Median:
			return -1
		case a.figure.Median < b.figure.Median:
			return +1
		}
		return 0
	})
	p := plot.New()
	p.HideX()
	p.Y.LineStyle.Width = 0
	p.Y.Tick.Length = 0
	p.Y.Padding = vg.Points(8) // a reader without the font has a wider one
	p.Y.Tick.Label.Font.Size = vg.Points(13)
	most := bars[0].figure.Median
	var (
		names  []string
		labels plotter.XYLabels
	)
	for i, b := range bars {
		names = append(names, b.subject)
		chart, err := plotter.NewBarChart(plotter.Values{b.figure.Median}, vg.Points(14))
		if err != nil {
			return nil, err
		}
		chart.Horizontal = true
		chart.XMin = float64(i)
		chart.LineStyle.Width = 0
		switch b.subject {
		case "shoal":
			chart.Color = shoalColour
		case bench.Baseline:
			chart.Color = baselineColour
		default:
			chart.Color = otherColour
		}
		p.Add(chart)
		labels.XYs = append(labels.XYs, plotter.XY{X: b.figure.Median, Y: float64(i)})
		labels.Labels = append(labels.Labels, show.Figure(b.figure, unit))
	}
	p.NominalY(names...)
	p.Y.Tick.Length = 0
	text, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range text.TextStyle {
		text.TextStyle[i].Font.Size = vg.Points(13)
		text.TextStyle[i].YAlign = draw.YCenter
	}
	text.Offset = vg.Point{X: vg.Points(5), Y: vg.Points(2)}
	p.Add(text)
	p.X.Min, p.X.Max = 0, most*1.35 // room for the label
	p.Y.Min, p.Y.Max = -0.6, float64(len(bars))-0.4
	return svg(p, light, 460, 22*float64(len(bars))+8)
}

// scalePlot draws how the cost of a task grows, for every subject. It returns nil if fewer than two sizes
// were measured, as when the run was interrupted.
func scalePlot(r *race.Results, rows []race.Row, light bool) ([]byte, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "tasks", "ns a task"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = powers{}, powers{}
	p.Legend.Top = true
	for _, s := range []*plot.Axis{&p.X, &p.Y} {
		s.Label.TextStyle.Font.Size = vg.Points(13)
		s.Tick.Label.Font.Size = vg.Points(12)
	}
	p.Legend.TextStyle.Font.Size = vg.Points(12)
	lines := map[string]plotter.XYs{}
	sizes := map[int]bool{}
	for _, row := range rows {
		_, text, _ := strings.Cut(row.Name, "tasks=")
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s: how many tasks? %w", row.Name, err)
		}
		for _, s := range row.Subjects {
			if f := r.Figure(row, s, row.Units[0]); f.OK() && f.Median > 0 {
				lines[s] = append(lines[s], plotter.XY{X: float64(n), Y: f.Median})
				sizes[n] = true
			}
		}
	}
	if len(sizes) < 2 {
		return nil, nil
	}
	// The others first, so that shoal is drawn over them.
	order := []string{}
	for _, s := range bench.Subjects[1:] {
		order = append(order, s.Name)
	}
	others := false // are in the legend
	for _, s := range append(order, bench.Baseline, "shoal") {
		xys := lines[s]
		if len(xys) == 0 {
			continue
		}
		l, err := plotter.NewLine(xys)
		if err != nil {
			return nil, err
		}
		l.Width, l.Color = vg.Points(1), otherColour
		switch s {
		case "shoal":
			l.Width, l.Color = vg.Points(3), shoalColour
		case bench.Baseline:
			l.Width, l.Color = vg.Points(2), baselineColour
			l.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
		}
		p.Add(l)
		if s == "shoal" || s == bench.Baseline {
			p.Legend.Add(s, l)
		} else if !others {
			others = true
			p.Legend.Add("the others", l)
		}
	}
	return svg(p, light, 460, 320)
}

// powers marks every power of ten.
type powers struct{}

func (powers) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		v := math.Pow(10, e)
		label := strconv.FormatFloat(v, 'f', -1, 64)
		if v >= 1e6 {
			label = strconv.FormatFloat(v/1e6, 'f', -1, 64) + " M"
		} else if v >= 1e3 {
			label = strconv.FormatFloat(v/1e3, 'f', -1, 64) + " k"
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}

// svg draws on white if light is set, otherwise on nothing.
func svg(p *plot.Plot, light bool, width, height float64) ([]byte, error) {
	if !light {
		p.BackgroundColor = color.Transparent
	}
	c := vgsvg.New(vg.Length(width), vg.Length(height))
	p.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
