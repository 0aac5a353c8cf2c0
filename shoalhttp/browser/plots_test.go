package browser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

func TestPlotsMove(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api")))
	p := open(t, url)
	p.live()
	p.until(`document.querySelectorAll('.plot canvas').length === 6`)
	before := eval[string](p, `window.before = document.querySelector('.plot canvas').toDataURL()`)
	if before == "" {
		t.Error("nothing is drawn")
	}
	p.until(`+document.querySelector('#plots').dataset.points >= 3`)
	p.until(`document.querySelector('.plot canvas').toDataURL() !== window.before`)
	// Rates come with the second snapshot; a busy pool has some.
	p.until(`[...document.querySelectorAll('.plot')[0].querySelectorAll('.v')].every(v => /^[1-9][\d,]*\/s$/.test(v.textContent))`)
	p.until(`/^[12] workers?$/.test(document.querySelectorAll('.plot')[2].querySelector('.v').textContent)`)
}

func TestHoverNamesValues(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api")))
	p := open(t, url, size(1280, 1400))
	p.live()
	p.until(`+document.querySelector('#plots').dataset.points >= 3`)
	at := eval[[]float64](p, `(() => {
		const r = document.querySelectorAll('.plot .u-over')[1].getBoundingClientRect();
		return [r.right - 3, r.top + r.height / 2];
	})()`)
	p.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
	// All six plots show the same time, and each of its lines a value with its unit.
	p.until(`new Set([...document.querySelectorAll('.plot time')].map(e => e.textContent)).size === 1`)
	p.until(`/^\d\d:\d\d:\d\d$/.test(document.querySelector('.plot time').textContent)`)
	for i, want := range []string{
		`in [\d.,]+/s;out [\d.,]+/s`,
		`queued \d+ tasks?;capacity 8 tasks`,
		`running \d workers?;idle \d workers?;limit 2 workers`,
		`p50 (–|[\d.]+[nµm]?s);p99 (–|[\d.]+[nµm]?s)`,
		`p50 (–|[\d.]+[nµm]?s);p99 (–|[\d.]+[nµm]?s)`,
		`failed 0/s;rejected 0/s;dropped 0/s`,
	} {
		p.until(fmt.Sprintf(`new RegExp(%q).test([...document.querySelectorAll('.plot')[%d].querySelectorAll('.key')].map(e => e.textContent).join(';'))`, "^"+want+"$", i))
	}
	p.do(chromedp.MouseEvent(chromedp.MouseMoved, 5, 5))
	p.until(`document.querySelector('.plot time').textContent === 'now'`)
}

func TestZoom(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api")))
	p := open(t, url, size(1280, 1400))
	p.live()
	p.until(`+document.querySelector('#plots').dataset.points >= 10`)
	const zoomed = `+document.querySelector('#plots').dataset.zoom`
	p.until(zoomed + ` === 0 && document.querySelector('#z-span').textContent.startsWith('the last ')`)
	// The last seventh of a minute, by the mouse.
	at := eval[[]float64](p, `(() => {
		const r = document.querySelectorAll('.plot .u-over')[1].getBoundingClientRect();
		return [r.left + r.width * 6 / 7, r.right - 2, r.top + r.height / 2];
	})()`)
	p.do(chromedp.MouseEvent(chromedp.MousePressed, at[0], at[2], chromedp.ButtonLeft))
	p.do(chromedp.MouseEvent(chromedp.MouseMoved, (at[0]+at[1])/2, at[2], chromedp.ButtonLeft))
	p.do(chromedp.MouseEvent(chromedp.MouseMoved, at[1], at[2], chromedp.ButtonLeft))
	p.do(chromedp.MouseEvent(chromedp.MouseReleased, at[1], at[2], chromedp.ButtonLeft))
	p.until(zoomed + ` >= 5 && ` + zoomed + ` <= 10`)
	p.until(`/^\d\d:\d\d:\d\d to \d\d:\d\d:\d\d, \d+s$/.test(document.querySelector('#z-span').textContent)`)
	points := eval[int](p, `window.points = +document.querySelector('#plots').dataset.points`)
	p.until(fmt.Sprintf(`+document.querySelector('#plots').dataset.points > %d && %s <= 10`, points, zoomed)) // it holds
	for n := range 2 {
		click := []chromedp.MouseOption{chromedp.ButtonLeft, chromedp.ClickCount(n + 1)}
		p.do(chromedp.MouseEvent(chromedp.MousePressed, at[0], at[2], click...), chromedp.MouseEvent(chromedp.MouseReleased, at[0], at[2], click...))
	}
	p.until(zoomed + ` === 0`)

	p.click("#z-in")
	p.until(zoomed + ` === 30`)
	p.click("#z-all")
	p.until(zoomed + ` === 0 && document.querySelector('#z-all').disabled`)

	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#plots').focus()`))
	p.press("+")
	p.press("+")
	p.until(zoomed + ` === 15`)
	p.press("-")
	p.until(zoomed + ` === 30`)
	p.keys(kb.ArrowLeft)
	p.until(`/^\d\d:/.test(document.querySelector('.plot time').textContent)`)
	p.keys(kb.Escape) // the cursor
	p.until(`document.querySelector('.plot time').textContent === 'now' && ` + zoomed + ` === 30`)
	p.keys(kb.Escape) // the zoom
	p.until(zoomed + ` === 0`)
}

func TestPlotsBeginBeforeTheVisit(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api")))
	for {
		resp, err := http.Get(url + "history.json?pool=1")
		if err != nil {
			t.Fatal(err)
		}
		var past shoalhttp.History
		err = json.NewDecoder(resp.Body).Decode(&past)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if len(past.Points) >= 2 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	p := open(t, url)
	p.live()
	p.until(`document.querySelector('#plots').dataset.since >= 5`) // seconds before the page was opened
}

// keepPlots has the page keep its plots in window.kept, so that a test sees what is drawn.
func keepPlots(p *page) {
	call(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `(() => {
		let plot;
		window.kept = [];
		Object.defineProperty(window, 'uPlot', {configurable: true, get: () => plot, set: f => {
			plot = new Proxy(f, {construct(f, args) {
				const u = Reflect.construct(f, args);
				window.kept.push(u);
				return u;
			}});
		}});
	})()`})
}

// TestAStallEndsTheLines: no time was measured while nothing ended, so a line from before the
// stall to after it would be a climb that never was.
func TestAStallEndsTheLines(t *testing.T) {
	t.Parallel()
	pool := newPool(t, shoal.WithName("api"), shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(8), shoal.WithTiming(shoal.TimingFull))
	go keepBusy(pool)
	p := open(t, serve(t, shoalhttp.WithPools(pool)), keepPlots)
	p.live()
	const lines = `[3, 4].map(i => window.kept[i].data[1])` // the p50 of waits and of runs
	p.until(lines + `.every(d => d.at(-1) > 0 && d.length >= 2)`)
	release := make(chan struct{})
	for range 2 {
		if err := pool.Submit(func() { <-release }); err != nil {
			t.Fatal(err)
		}
	}
	p.until(lines + `.every(d => d.slice(-4).every(v => v === null))`)
	close(release)
	p.until(lines + `.every(d => d.at(-1) > 0)`)
	drawn := regexp.MustCompile(`1_*0{4,}1`) // uPlot passes over undefined, and ends the line at null
	for i, kinds := range eval[[]string](p, lines+`.map(d => d.map(v => v === null ? '0' : v === undefined ? '_' : '1').join(''))`) {
		if !drawn.MatchString(kinds) {
			t.Errorf("line %d is drawn as %s (1 is a value, _ is passed over, 0 ends the line), want values on both sides of four zeros", i, kinds)
		}
	}
}
