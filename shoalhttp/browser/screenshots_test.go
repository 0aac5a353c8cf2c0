package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

// TestScreenshots writes pictures of the page for people to look at; it proves
// nothing.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no -screenshots")
	}
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	three := serve(t, shoalhttp.WithPools(busy(t, "api"), busy(t, "mail"), busy(t, "thumbnails")), shoalhttp.WithControls(token))
	hanging := serve(t, shoalhttp.WithPools(busy(t, "api"), stuck(t, "upload"), busy(t, "mail")))
	pools := make([]*shoal.Pool, 1000)
	for i := range pools {
		pools[i] = newPool(t, shoal.WithName(fmt.Sprintf("pool-%03d", i)), shoal.WithMaxWorkers(1))
	}
	many := serve(t, shoalhttp.WithPools(append(pools, stuck(t, "pool-x"))...))

	write := func(name string, p *page) {
		png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 360} {
			view := func(kind, url string, more ...setup) (string, *page) {
				height := int64(900)
				if width < 500 {
					height = 740
				}
				p := open(t, url, append(more, size(width, height), prefers(scheme))...)
				return fmt.Sprintf("%s-%s-%d", kind, scheme, width), p
			}
			name, p := view("busy", three)
			p.until(`+document.querySelector('#plots').dataset.points >= 15`)
			write(name, p)

			name, p = view("stalled", hanging)
			p.until(`document.querySelector('#d-name').textContent === 'upload' && +document.querySelector('#plots').dataset.points >= 8`)
			p.click("#d-stacks")
			p.until(`document.querySelector('#stacks details') !== null`)
			write(name, p)

			name, p = view("many", many)
			p.until(`+document.querySelector('#plots').dataset.points >= 5`)
			write(name, p)

			name, p = view("no-javascript", hanging, noScript)
			write(name, p)
		}
	}
}

// every is how often a page has new points.
const every = time.Second

// TestPicture writes a picture of a page that is served elsewhere.
func TestPicture(t *testing.T) {
	if *picture == "" {
		t.Skip("no -picture")
	}
	p := open(t, *of, size(1280, 1180), prefers("light"))
	for eval[int](p, `+document.querySelector('#plots').dataset.points || 0`) < *points {
		time.Sleep(every)
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*picture, png, 0o644); err != nil {
		t.Fatal(err)
	}
}
