package browser_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

// serverEnv has the test program be a server at that address, and nothing else: a
// server that is started again is another process.
const serverEnv = "SHOAL_BROWSER_SERVER"

// serveAlone serves two pools until its standard input ends.
func serveAlone(addr string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	listener, err := net.Listen("tcp", addr)
	// Another process may have taken the port of a server that is started again, for a connection of its own.
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); listener, err = net.Listen("tcp", addr) {
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		fail(err)
	}
	var pools []*shoal.Pool
	for _, name := range []string{"a", "b"} {
		p, err := shoal.New(shoal.WithName(name))
		if err != nil {
			fail(err)
		}
		pools = append(pools, p)
	}
	fmt.Println(listener.Addr())
	server := &http.Server{Handler: shoalhttp.Handler(pools...), ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(listener) }() // its error is that it was closed
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
}

// startServer starts one, and gives its address and what ends it.
func startServer(t *testing.T, addr string) (string, func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), serverEnv+"="+addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	}
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not say its address: %v", err)
	}
	return strings.TrimSpace(line), stop
}

func TestReconnectsAfterRestart(t *testing.T) {
	t.Parallel()
	addr, stop := startServer(t, "127.0.0.1:0")
	p := open(t, "http://"+addr+"/#pool=b", expect(`ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE`))
	p.live()
	p.until(`+document.querySelector('#plots').dataset.points >= 3`)
	p.do(chromedp.Evaluate[chromedp.Void](`
		window.fewest = 1e9; // points, from now on
		new MutationObserver(() => {
			const n = +document.querySelector('#plots').dataset.points;
			window.fewest = Math.min(window.fewest, n);
		}).observe(document.querySelector('#plots'), {attributes: true})`))
	stop()
	p.until(`document.querySelector('#conn-state').textContent === 'reconnecting…'`)
	startServer(t, addr)
	p.until(`document.querySelector('#conn-state').textContent === 'live'`)
	p.until(`document.querySelector('#say').textContent.includes('started again')`)
	p.until(`window.fewest === 1`) // the history of the server before is gone
	p.until(`document.querySelector('#d-name').textContent === 'b'`)
	p.until(`document.querySelector('#pools tbody tr[aria-selected=true] a').textContent === 'b'`)
}
