package browser_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

const token = "sesame, open the door"

func TestStacksNameTheHangingFunction(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api"), stuck(t, "upload")))
	p := open(t, url)
	p.live()
	// Nobody has to look for it: the strip says which pool, and it is shown.
	p.until(`document.querySelector('#strip').innerText.includes('1 of 2 pools stalled. upload: all 2 workers busy, 3 tasks queued, nothing finished for')`)
	p.until(`document.querySelector('#d-name').textContent === 'upload'`)
	p.until(`document.querySelector('#pools tbody tr[aria-selected=true] td').textContent.startsWith('▲ stalled')`)
	p.until(`document.title.startsWith('▲ 1')`)
	p.click("#d-stacks")
	p.until(`document.querySelectorAll('#stacks details').length === 1`) // the two are at the same place
	p.until(`document.querySelector('#stacks summary').textContent.startsWith('2 tasks, the oldest ≥ ')`)
	p.until(`document.querySelector('#stacks summary code').textContent.endsWith('hangHereOnPurpose')`)
	p.until(`document.querySelector('#stacks pre b').textContent.includes('hangHereOnPurpose(')`)
	p.until(`document.querySelector('#stacks details[open] pre').textContent.includes('harness_test.go')`)
	p.until(`document.querySelectorAll('#w-body tr:not(.pad)').length === 2 && document.querySelector('#w-body').textContent.includes('running')`)
}

func TestVerdictsAreSentences(t *testing.T) {
	t.Parallel()
	failing := newPool(t, shoal.WithName("mail"))
	url := serve(t, shoalhttp.WithPools(busy(t, "api"), failing))
	for range 84 {
		if err := failing.SubmitWait(t.Context(), func(context.Context) error { return errors.New("no") }); err == nil {
			t.Fatal("it did not fail")
		}
	}
	p := open(t, url)
	p.live()
	p.until(`/^◆ 1 of 2 pools with problems\. mail: 84 of 84 tasks \(100%\) failed in the last \d+s$/.test(document.querySelector('#worst').innerText)`)
	p.until(`document.querySelector('#d-name').textContent === 'mail' && document.querySelector('#d-state').textContent === '◆ failing'`)
	p = open(t, url, noScript)
	if text := eval[string](p, `document.body.innerText`); !strings.Contains(text, "mail: 84 of 84 tasks (100%) failed in the last ") {
		t.Errorf("without JavaScript it is not said: %s", text)
	}
}

func TestFreezeHoldsTheView(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api")))
	p := open(t, url)
	p.live()
	p.click("#freeze")
	p.until(`document.querySelector('#conn-state').textContent === 'frozen'`)
	points := eval[int](p, `window.points = +document.querySelector('#plots').dataset.points`)
	p.until(`performance.getEntriesByType('resource').length > 0 && /^at \d\d:\d\d:\d\d$/.test(document.querySelector('#age').textContent)`)
	p.click("#freeze")
	p.until(`+document.querySelector('#plots').dataset.points > window.points`)
	if points < 1 {
		t.Errorf("frozen with %d points", points)
	}
}

// bound is how many elements the page may have, whatever the pools have.
const bound = 3000

func (p *page) few() {
	p.t.Helper()
	if n := eval[int](p, `document.querySelectorAll('*').length`); n > bound {
		p.t.Errorf("%d elements, want at most %d", n, bound)
	}
}

func TestManyPoolsAndWorkers(t *testing.T) {
	t.Parallel()
	const crowd = 10_000
	pools := make([]*shoal.Pool, 1000)
	for i := range pools {
		pools[i] = newPool(t, shoal.WithName(fmt.Sprintf("pool-%03d", i)), shoal.WithMaxWorkers(1))
	}
	big := newPool(t, shoal.WithName("big"), shoal.WithMaxWorkers(crowd), shoal.WithQueueCapacity(0))
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	var started sync.WaitGroup
	started.Add(crowd)
	for range crowd {
		if err := big.Submit(func() { started.Done(); <-release }); err != nil {
			t.Fatal(err)
		}
	}
	started.Wait()

	url := serve(t, shoalhttp.WithPools(append(pools, big)...))
	p := open(t, url+"#pool=big")
	p.live()
	p.until(`document.querySelector('#shown').textContent === '1,001 pools'`)
	p.until(`document.querySelector('#d-name').textContent === 'big'`)
	p.until(`document.querySelector('#w-count').textContent.includes('100 of 10,000')`)
	p.few()

	// The address named the last row, so it was scrolled to.
	p.until(`document.querySelector('#pools tbody tr[aria-selected=true]').getBoundingClientRect().bottom <= document.querySelector('#pools-box').getBoundingClientRect().bottom + 1`)
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#pools-box').scrollTop = 0`))
	p.until(`[...document.querySelectorAll('#pools tbody a')].some(a => a.textContent === 'pool-000')`)
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#pools-box').scrollTop = 500 * 27`))
	p.until(`[...document.querySelectorAll('#pools tbody a')].some(a => a.textContent === 'pool-505')`)
	p.few()

	p.do(chromedp.SendKeys(chromedp.CSS("#filter"), "OOL-77"))
	p.until(`document.querySelector('#shown').textContent === '10 of 1,001 pools'`)
	p.until(`document.querySelectorAll('#pools tbody tr:not(.pad)').length === 10`)
	p.click("#pools tbody tr:nth-child(5) td:nth-child(4)")
	p.until(`document.querySelector('#d-name').textContent === 'pool-773' && location.hash === '#pool=pool-773'`)
	p.do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	p.until(`document.querySelector('#d-name').textContent === 'big'`)

	for _, n := range []string{"1,000", ""} {
		p.click("#w-more")
		if n == "" {
			p.until(`document.querySelector('#w-count').textContent === '10,000 workers'`)
		} else {
			p.until(`document.querySelector('#w-count').textContent.includes('the first ` + n + ` of')`)
		}
		p.few()
	}
	p.until(`document.querySelector('#w-more').hidden`)
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#w-box').scrollTop = 1e9`))
	p.until(`document.querySelector('#w-body tr[aria-rowindex="10001"]') !== null`)
	p.few()
}

func TestSortsByColumn(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(newPool(t, shoal.WithName("idle")), busy(t, "busy"), newPool(t, shoal.WithName("calm"))))
	p := open(t, url)
	p.live()
	names := `[...document.querySelectorAll('#pools tbody a')].map(e => e.textContent).join()`
	p.until(names + ` === 'idle,busy,calm'`)
	p.click("th[data-sort=name] button")
	p.until(names + ` === 'busy,calm,idle'`)
	p.click("th[data-sort=name] button")
	p.until(names + ` === 'idle,calm,busy'`)
	p.until(`document.querySelector('th[data-sort=name]').getAttribute('aria-sort') === 'descending'`)
	p.click("th[data-sort=out] button")
	p.until(names + `.startsWith('busy,')`)
	p.click("th[data-sort=out] button")
	p.click("th[data-sort=out] button")
	p.until(names + ` === 'idle,busy,calm'`)
}

// hostile is what a program may call a pool.
const hostile = `<img src=x onerror="document.title='gotcha'">'&amp;{{.}} / %2F`

func TestNamesAreText(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(newPool(t, shoal.WithName("a")), stuck(t, hostile)))
	for _, kind := range []string{"with", "without"} {
		var p *page
		if kind == "with" {
			p = open(t, url)
			p.live()
			p.click("#pools tbody tr:nth-child(3)")
			p.until(fmt.Sprintf(`document.querySelector('#d-name').textContent === %q`, hostile))
			p.until(fmt.Sprintf(`document.querySelector('#strip').textContent.includes(%q)`, hostile))
			p.do(chromedp.Reload()) // the address names it
			p.live()
			p.until(fmt.Sprintf(`document.querySelector('#d-name').textContent === %q`, hostile))
		} else {
			p = open(t, url, noScript)
		}
		if name := eval[string](p, `document.querySelectorAll('#pools tbody th')[1].textContent`); name != hostile {
			t.Errorf("%s JavaScript the name reads %q", kind, name)
		}
		if n := eval[int](p, `document.images.length`); n != 0 {
			t.Errorf("%s JavaScript a name became %d images", kind, n)
		}
	}
}

func TestNamesShowControlCharacters(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(newPool(t, shoal.WithName("a\nb\x1b[31m\u202ecod")), newPool(t, shoal.WithName("c"))))
	const want = `a\nb\x1b[31m\u202ecod`
	p := open(t, url)
	p.live()
	p.click("#pools tbody tr:nth-child(2)")
	p.until(fmt.Sprintf(`document.querySelector('#d-name').textContent === %q`, want))
	p.do(chromedp.Reload()) // the address names it
	p.live()
	p.until(fmt.Sprintf(`document.querySelector('#d-name').textContent === %q`, want))
	if name := eval[string](open(t, url, noScript), `document.querySelector('#pools tbody th').textContent`); name != want {
		t.Errorf("without JavaScript the name reads %q", name)
	}
}

func TestWithoutJavaScript(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api"), stuck(t, "upload"), newPool(t, shoal.WithName("mail"), shoal.WithQueueCapacity(shoal.Unbounded))))
	p := open(t, url, noScript)
	rows := eval[[][]string](p, `[...document.querySelectorAll('#pools tr')].map(tr => [...tr.cells].map(c => c.innerText.trim()))`)
	if len(rows) != 4 {
		t.Fatalf("%d rows, want a head and 3 pools", len(rows))
	}
	for _, row := range rows {
		if len(row) != len(rows[0]) {
			t.Errorf("%d cells under %d heads: %q", len(row), len(rows[0]), row)
		}
		for i, cell := range row {
			if cell == "" {
				t.Errorf("%s of %s is empty", rows[0][i], row[0])
			}
		}
	}
	for i, want := range [][]string{{"api", "Open", "/ 8", "/ 2"}, {"upload", "◆ queue full", "3 / 3", "2 / 0 / 2"}, {"mail", "0 / unbounded"}} {
		for _, w := range want {
			if line := strings.Join(rows[i+1], " | "); !strings.Contains(line, w) {
				t.Errorf("no %q in %q", w, line)
			}
		}
	}
	if !eval[bool](p, `[...document.querySelectorAll('[data-js], #detail')].every(e => e.offsetParent === null)`) {
		t.Error("what needs JavaScript is shown")
	}
	if !strings.Contains(eval[string](p, `document.body.innerText`), "reload the page") {
		t.Error("it does not say how to see the next moment")
	}
}

func TestSubPools(t *testing.T) {
	t.Parallel()
	parent := busy(t, "api")
	child, err := parent.Sub(shoal.WithName("tenant/1"))
	if err != nil {
		t.Fatal(err)
	}
	mail, err := child.Sub(shoal.WithName("mail"))
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.KeepAlive(mail) // a sub-pool that is dropped is collected
	url := serve(t, shoalhttp.WithPools(parent, busy(t, "other")), shoalhttp.WithControls(token))
	for _, setups := range [][]setup{{}, {noScript}} {
		p := open(t, url, setups...)
		if len(setups) == 0 {
			p.live()
		}
		if tree := eval[string](p, `[...document.querySelectorAll('#pools tbody th')].map(e => (e.className.match(/ d(\d)/) || ['', 0])[1] + e.textContent).join()`); tree != "0api,1tenant/1,2mail,0other" {
			t.Errorf("depths and names: %s", tree)
		}
	}
	p := open(t, url+"#pool=api/tenant%2F1/mail")
	p.live()
	p.until(`document.querySelector('#d-name').textContent === 'api / tenant/1 / mail'`)
	p.until(`document.querySelector('#c-min').disabled`) // the workers are the parent's
	p.do(chromedp.SendKeys(chromedp.CSS("#filter"), "api 1"))
	p.until(`[...document.querySelectorAll('#pools tbody a')].map(e => e.textContent).join() === 'api / tenant/1,api / tenant/1 / mail'`)
	p.click("#pools tbody a")
	p.until(`location.hash === '#pool=api/tenant%2F1' && document.querySelector('#d-name').textContent === 'api / tenant/1'`)
}

func TestParentsShowWhatRunsBelow(t *testing.T) {
	t.Parallel()
	parent := newPool(t, shoal.WithName("api"), shoal.WithMaxWorkers(2))
	child, err := parent.Sub(shoal.WithName("tenant"))
	if err != nil {
		t.Fatal(err)
	}
	go keepBusy(child)
	url := serve(t, shoalhttp.WithPools(parent))
	p := open(t, url+"#pool=api")
	p.live()
	p.until(`/^Σ [1-9]/.test(document.querySelector('#pools tbody tr:not(.pad)').cells[3].textContent)`)
	p.until(`/in its 1 sub-pool: [1-9][\d,]* tasks\/s in, [1-9][\d,]* out, \d+ queued; /.test(document.querySelector('#d-why').textContent)`)
	p.until(`/subs [1-9][\d,]*\/s/.test(document.querySelector('.plot .keys').textContent)`)
	if p := open(t, url, noScript); !strings.Contains(eval[string](p, `document.querySelector('#pools tbody tr').innerText`), "Σ ") {
		t.Error("without JavaScript the parent looks idle")
	}
}

func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api"), busy(t, "mail"), stuck(t, "upload")), shoalhttp.WithControls(token))
	p := open(t, url, expect(`status of 40[013]`))
	p.live()
	p.press("/")
	p.until(`document.activeElement.id === 'filter' && document.activeElement.value === ''`)
	p.keys("a", kb.ArrowDown)
	p.until(`document.activeElement.id === 'pools'`)
	chosen := func(name string) {
		t.Helper()
		p.until(fmt.Sprintf(`document.querySelector('#d-name').textContent === %q`, name))
		p.until(fmt.Sprintf(`document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).textContent.includes(%q)`, name))
	}
	p.keys(kb.Home)
	chosen("api")
	p.keys(kb.ArrowDown)
	chosen("mail")
	p.keys(kb.ArrowUp)
	chosen("api")
	p.keys(kb.End)
	chosen("upload")
	p.keys(kb.Enter)
	p.until(`document.activeElement.id === 'd-name'`)

	// Everything is reached by Tab, and what has the focus shows it.
	reached := map[string]bool{}
	for range 60 {
		p.keys(kb.Tab)
		at := eval[[]string](p, `(() => {
			const e = document.activeElement;
			const ring = e.id === 'pools' ? e.parentNode : e;
			return [e.id || e.textContent.trim(), getComputedStyle(ring).outlineStyle];
		})()`)
		if reached[at[0]] {
			break // once around
		}
		reached[at[0]] = true
		if at[1] == "none" && at[0] != "" && !eval[bool](p, `document.activeElement === document.body`) {
			t.Errorf("%s has the focus and does not show it", at[0])
		}
		switch at[0] {
		case "plots":
			p.keys(kb.ArrowLeft)
			p.until(`/^\d\d:/.test(document.querySelector('.plot time').textContent)`)
			p.keys(kb.Escape)
			p.until(`document.querySelector('.plot time').textContent === 'now'`)
		case "s-get":
			p.keys(kb.Enter)
			p.until(`document.querySelector('#stacks summary code').textContent.endsWith('hangHereOnPurpose')`)
		case "c-pause":
			p.keys(" ")
			p.until(`document.querySelector('#ask').open`)
			p.keys(kb.Escape)
			p.until(`!document.querySelector('#ask').open && document.activeElement.id === 'c-pause'`)
		}
	}
	for _, want := range []string{"c-pause", "c-min", "c-max", "plots", "s-get", "Copy", "w-box", "freeze", "theme", "filter", "only", "pools", "stalled"} {
		if !reached[want] {
			t.Errorf("Tab does not reach %s", want)
		}
	}
}

func TestNoSidewaysScrolling(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api"), stuck(t, strings.Repeat("upload", 40))), shoalhttp.WithControls(token))
	for _, width := range []int64{360, 800, 1280} {
		p := open(t, url, size(width, 740))
		p.live()
		p.until(`document.querySelector('#d-name').textContent.startsWith('uploadupload')`)
		p.click("#s-get")
		p.until(`document.querySelector('#stacks details') !== null`)
		if wide := eval[int](p, `document.documentElement.scrollWidth`); int64(wide) > width {
			t.Errorf("the page is %d px wide on a screen of %d", wide, width)
		}
		// A phone has to show which pool is in which state without scrolling at all.
		if !eval[bool](p, `document.querySelector('#pools tbody tr:not(.pad)').cells[1].getBoundingClientRect().right <= innerWidth`) {
			t.Errorf("the state is out of sight at %d px", width)
		}
		// It says that there are more columns, until the last one is seen.
		cue := `getComputedStyle(document.querySelector('#sideways'))`
		if width < 1190 {
			p.until(cue + `.display === 'block' && ` + cue + `.visibility === 'visible'`)
			p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#pools-box').scrollLeft = 1e6`))
			p.until(cue + `.visibility === 'hidden'`)
		} else {
			p.until(cue + `.display === 'none'`)
		}
		p = open(t, url, size(width, 740), noScript)
		if wide := eval[int](p, `document.documentElement.scrollWidth`); int64(wide) > width {
			t.Errorf("without JavaScript the page is %d px wide on a screen of %d", wide, width)
		}
	}
}

// The pairs that have text on a background, and lines on one.
const contrasts = `(() => {
	const css = getComputedStyle(document.documentElement);
	const light = name => {
		const hex = css.getPropertyValue('--' + name).trim().slice(1);
		const full = hex.length === 3 ? [...hex].map(c => c + c).join('') : hex;
		const [r, g, b] = [0, 2, 4].map(i => parseInt(full.slice(i, i + 2), 16) / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const low = [];
	const want = (least, on, ...names) => {
		for (const name of names) {
			const [a, b] = [light(name), light(on)].sort((x, y) => y - x);
			const is = (a + 0.05) / (b + 0.05);
			if (!(is >= least)) low.push(name + ' on ' + on + ': ' + is.toFixed(2));
		}
	};
	want(4.5, 'bg', 'fg', 'muted', 'accent', 'bad', 'warn', 'ok', 's1', 's2', 's3');
	want(4.5, 'panel', 'fg', 'muted', 'ok', 'bad', 'warn', 'accent');
	want(4.5, 'select', 'fg', 'muted', 'bad', 'warn');
	want(4.5, 'bad-bg', 'fg', 'bad', 'accent');
	want(4.5, 'warn-bg', 'fg', 'warn', 'accent');
	want(4.5, 'accent', 'on-accent');
	want(3, 'bg', 'control');
	return low;
})()`

func TestDarkAndLight(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api")))
	p := open(t, url, prefers("dark"))
	p.live()
	p.until(`document.querySelector('.plot canvas') !== null`)
	background := `getComputedStyle(document.body).backgroundColor`
	dark := eval[string](p, background)
	check := func(theme string) {
		t.Helper()
		for _, low := range eval[[]string](p, contrasts) {
			t.Errorf("%s: too little contrast of %s", theme, low)
		}
	}
	check("dark by preference")
	p.click("#theme")
	p.until(`document.querySelector('#theme').textContent === 'Theme: light'`)
	check("light by choice")
	if eval[string](p, background) == dark {
		t.Error("the theme that was chosen is not shown")
	}
	p.click("#theme")
	check("dark by choice")
	if got := eval[string](p, background); got != dark {
		t.Errorf("dark by choice is %s, by preference %s", got, dark)
	}
	p.do(chromedp.Reload())
	p.live()
	p.until(`document.querySelector('#theme').textContent === 'Theme: dark'`)
}
