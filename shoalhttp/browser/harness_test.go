package browser_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

var (
	screenshots = flag.String("screenshots", "", "write screenshots of the page to this `directory`")
	picture     = flag.String("picture", "", "write a screenshot of the page at -of to this `file`")
	of          = flag.String("of", "", "the `URL` of a page, for -picture")
	points      = flag.Int("points", 60, "how many points the plots shall have, for -picture")
)

// patience bounds every wait. Nothing is judged by how long it took.
const patience = time.Minute

// stopBrowser is what TestMain calls in the end.
var stopBrowser = func() {}

func TestMain(m *testing.M) {
	flag.Parse()
	if addr := os.Getenv(serverEnv); addr != "" {
		serveAlone(addr)
		return
	}
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

var errNoBrowser = errors.New("no Chromium: install the package chromium (or chromium-browser, or google-chrome), or name the program in $CHROMIUM")

func findBrowser() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return exec.LookPath(path)
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoBrowser
}

// chromium is started once; each test has tabs with a storage of their own.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path, err := findBrowser()
	if err != nil {
		return nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // it needs rights that a container may not give; the pages are our own
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		cancelAlloc()
		return nil, fmt.Errorf("%s does not start: %w", path, err)
	}
	stopBrowser = func() {
		_ = chromedp.Cancel(ctx) // waits for its processes and removes its profile
		cancel()
		cancelAlloc()
	}
	return ctx, nil
})

// A page is a tab. It fails the test if the page wrote anything to the console
// that was not expected; violations of the content security policy show there.
type page struct {
	t       *testing.T
	ctx     context.Context
	allowed *regexp.Regexp

	mu       sync.Mutex
	messages []string
}

// A setup is done before the page is loaded.
type setup func(*page)

func size(width, height int64) setup {
	return func(p *page) {
		call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
		})
	}
}

func prefers(scheme string) setup {
	return func(p *page) {
		call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
	}
}

func noScript(p *page) {
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// expect allows messages on the console: the browser reports every request that
// was refused or met no server.
func expect(message string) setup {
	return func(p *page) { p.allowed = regexp.MustCompile(message) }
}

// open loads url in a new tab.
func open(t *testing.T, url string, setups ...setup) *page {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		if errors.Is(err, errNoBrowser) && os.Getenv("SHOAL_BROWSER") != "required" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	p := &page{t: t, ctx: ctx}
	var reading sync.WaitGroup
	messages := chromedp.Console(ctx)
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			p.mu.Lock()
			p.messages = append(p.messages, m.String())
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the page said:\n%s", eval[string](p, `document.body.innerText`))
		}
		cancel()
		reading.Wait()
		for _, m := range p.messages {
			if p.allowed == nil || !p.allowed.MatchString(m) {
				t.Errorf("on the console: %s", m)
			}
		}
	})
	size(1280, 900)(p)
	for _, s := range setups {
		s(p)
	}
	p.do(chromedp.Navigate(url))
	return p
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// until waits for a JavaScript expression to become true. (chromedp.Poll makes
// a function from text in the page, which its policy forbids.)
func (p *page) until(expression string) {
	p.t.Helper()
	ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`new Promise(done => {
		const end = performance.now() + %d;
		const look = () => {
			let ok = false;
			try { ok = %s } catch {}
			if (ok) done(true);
			else if (performance.now() > end) done(false);
			else setTimeout(look, 20);
		};
		look();
	})`, patience.Milliseconds(), expression), chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	if !ok {
		p.t.Fatalf("not within %v: %s", patience, expression)
	}
}

func (p *page) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

func (p *page) keys(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}

// live waits until the page shows figures that came after it was loaded.
func (p *page) live() {
	p.t.Helper()
	p.until(`document.querySelector('#conn-state').textContent === 'live' && +document.querySelector('#plots').dataset.points >= 1`)
}

// press is a key that types a character, as a keyboard sends it: if the page
// takes the key, there is no character. chromedp.KeyEvent types it in any case.
func (p *page) press(key string) {
	p.t.Helper()
	call(p, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key})
	call(p, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: key})
}

func eval[T any](p *page, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Errorf("%s: %v", expression, err)
	}
	return v
}

func call[P, R any](p *page, cmd cdp.Command[P, R], params P) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, cmd, params); err != nil {
		p.t.Fatal(err)
	}
}

// serve has the page at /debug/shoal/ of a server of its own, and gives its address.
func serve(t *testing.T, opts ...shoalhttp.Option) string {
	t.Helper()
	page, err := shoalhttp.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/shoal/", page)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections() // an event stream has no end
		server.Close()
	})
	return server.URL + "/debug/shoal/"
}

func newPool(t *testing.T, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	p, err := shoal.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// busy keeps a pool at work until the test ends, with nothing wrong: its queue
// is never full.
func busy(t *testing.T, name string) *shoal.Pool {
	t.Helper()
	p := newPool(t, shoal.WithName(name), shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(8))
	go keepBusy(p)
	return p
}

func keepBusy(p *shoal.Pool) {
	for {
		for range 6 {
			if p.Submit(func() { time.Sleep(2 * time.Millisecond) }) != nil {
				return
			}
		}
		p.Wait()
	}
}

// hangHereOnPurpose is what the page has to name.
//
//go:noinline
func hangHereOnPurpose(release <-chan struct{}) { <-release }

// stuck is a pool whose two workers hang while three tasks wait.
func stuck(t *testing.T, name string) *shoal.Pool {
	t.Helper()
	p := newPool(t, shoal.WithName(name), shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(3))
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for range 5 {
		if err := p.Submit(func() { hangHereOnPurpose(release) }); err != nil {
			t.Fatal(err)
		}
	}
	return p
}
