package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shoal-go/shoal/cmd/shoal/internal/demo"
	"github.com/shoal-go/shoal/shoalhttp"
)

func TestDemoWorksUntilItIsTold(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error)
	go func() {
		err := demo.Run(ctx, demo.Config{
			Listen: "127.0.0.1:0", Token: "0123456789abcdef", Dir: dir, Drain: time.Minute,
			Log: slog.New(slog.DiscardHandler), Clock: time.Second,
		}, in)
		in.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	lines.Scan()
	watch := regexp.MustCompile(`^watch     (http://127\.0\.0\.1:\d+)/debug/shoal/#token=0123456789abcdef$`).FindStringSubmatch(lines.Text())
	if watch == nil {
		t.Fatalf("it says %q", lines.Text())
	}
	get := func(path string) string {
		t.Helper()
		resp, err := http.Get(watch[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %s %v", path, resp.Status, err)
		}
		return string(b)
	}
	for range 3 { // the other lines of the beginning
		lines.Scan()
	}
	// All pools get something done, and the dependency that hangs is reported.
	for {
		var s shoalhttp.Snapshot
		if err := json.Unmarshal([]byte(get("/debug/shoal/stats.json")), &s); err != nil {
			t.Fatal(err)
		}
		working, stalls := 0, uint64(0)
		for _, p := range s.Pools {
			if p.Completed > 0 {
				working++
			}
			stalls += p.Stalls
		}
		if len(s.Pools) != 5 || !s.Controls {
			t.Fatalf("%+v", s)
		}
		if working == 4 && stalls > 0 { // fetch has only sub-pools
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	for path, want := range map[string]string{
		"/":             "slow-dependency",
		"/debug/shoal/": "people",
		"/metrics":      `shoal_pool_task_completed_total{shoal_pool_name="fetch/batch"}`,
		"/debug/pprof/": "goroutine",
	} {
		if !strings.Contains(get(path), want) {
			t.Errorf("%s has no %q", path, want)
		}
	}
	cancel()
	var rest []string
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, name := range []string{"hash", "fetch", "slow-dependency", "  people", "  batch"} {
		if !strings.Contains(strings.Join(rest, "\n"), "\n"+name+" ") {
			t.Errorf("%s is not in what was left:\n%s", name, strings.Join(rest, "\n"))
		}
	}
}

func TestDemoAtAnAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out, stderr bytes.Buffer
	err = run(t.Context(), []string{"demo", "-listen", l.Addr().String()}, &out, devNull(t))
	if status(err, &stderr) != 1 || !strings.Contains(stderr.String(), l.Addr().String()) || strings.Count(stderr.String(), "\n") != 1 || out.Len() != 0 {
		t.Errorf("%q, %q", out.String(), stderr.String())
	}
}
