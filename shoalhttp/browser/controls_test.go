package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

func TestControls(t *testing.T) {
	t.Parallel()
	pool := busy(t, "api")
	url := serve(t, shoalhttp.WithPools(pool), shoalhttp.WithControls(token))
	p := open(t, url+"#token=wrong", expect(`status of 40[013]`))
	p.live()
	if hash := eval[string](p, `location.hash`); hash != "" {
		t.Errorf("the token is left in the address: %q", hash)
	}

	p.click("#c-pause")
	p.until(`document.querySelector('#ask').open`)
	p.click("#ask-no")
	p.until(`!document.querySelector('#ask').open`)
	if pool.State() != shoal.Open {
		t.Error("paused, though that was cancelled")
	}
	p.click("#c-pause")
	p.click("#ask-yes")
	p.until(`document.querySelector('#c-said.bad').textContent.startsWith('✗ refused: ')`)
	if pool.State() != shoal.Open {
		t.Error("paused with a wrong token")
	}

	p.click("#c-pause") // a refused token is forgotten and asked for
	p.until(`document.querySelector('#ask').open && document.activeElement.id === 'ask-token'`)
	p.keys(token, kb.Enter)
	p.until(`document.querySelector('#c-said').textContent.startsWith('paused at')`)
	if pool.State() != shoal.Paused {
		t.Errorf("after Pause the pool is %v", pool.State())
	}
	p.until(`document.querySelector('#d-state').textContent.includes('Paused')`)
	p.until(`document.querySelector('#c-pause').textContent === 'Resume'`)
	p.click("#c-pause")
	p.until(`document.querySelector('#c-said').textContent.startsWith('resumed at')`)
	if pool.State() != shoal.Open {
		t.Errorf("after Resume the pool is %v", pool.State())
	}

	resize := func(minWorkers, maxWorkers int) {
		p.until(`!document.querySelector('#c-resize button').disabled`)
		p.do(chromedp.SetValue(chromedp.CSS("#c-min"), fmt.Sprint(minWorkers)), chromedp.SetValue(chromedp.CSS("#c-max"), fmt.Sprint(maxWorkers)))
		p.click("#c-resize button")
		p.until(fmt.Sprintf(`document.querySelector('#ask').open && document.querySelector('#ask-text').textContent.replaceAll(',', '').includes('Give api %d to %d workers instead of ')`, minWorkers, maxWorkers))
	}
	resize(3, 7)
	p.click("#ask-no")
	p.until(`!document.querySelector('#ask').open`)
	if st := pool.Stats(); st.MaxWorkers != 2 {
		t.Errorf("resized to %d, though that was cancelled", st.MaxWorkers)
	}
	resize(3, 7)
	if text := eval[string](p, `document.querySelector('#ask-text').textContent`); !strings.Contains(text, "Give api 3 to 7 workers instead of 0 to 2? That starts ") {
		t.Errorf("it asks %q", text)
	}
	p.click("#ask-yes")
	p.until(`document.querySelector('#c-said').textContent.startsWith('resized to 3 to 7')`)
	if st := pool.Stats(); st.MinWorkers != 3 || st.MaxWorkers != 7 {
		t.Errorf("after Resize the bounds are %d and %d, want 3 and 7", st.MinWorkers, st.MaxWorkers)
	}
	p.until(`/ \/ 7$/.test(document.querySelector('#pools tbody tr:not(.pad)').cells[6].textContent)`)
	resize(9, 8)
	p.click("#ask-yes")
	p.until(`document.querySelector('#c-said.bad').textContent.startsWith('✗ refused: ')`)
	p.until(`!document.querySelector('#ask').open`)
	resize(1_000_000, 1_000_000)
	p.click("#ask-yes")
	p.until(`document.querySelector('#c-said.bad').textContent.includes('min is 1000000: want 0 … 1000')`)
	if st := pool.Stats(); st.MaxWorkers != 7 {
		t.Errorf("a refused Resize set the maximum to %d", st.MaxWorkers)
	}
}

func TestNoControlsUnlessServed(t *testing.T) {
	t.Parallel()
	url := serve(t, shoalhttp.WithPools(busy(t, "api")))
	p := open(t, url)
	p.live()
	p.until(`document.querySelector('#controls') === null`)
}
