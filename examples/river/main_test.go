package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shoal-go/shoal/internal/handlertest"
	"github.com/shoal-go/shoal/internal/postgres/pgtest"
	"github.com/shoal-go/shoal/shoalhttp"
)

const token = "a token of many bytes"

// TestBothPages starts the program and looks at both pages, with the token and without.
func TestBothPages(t *testing.T) {
	c := pgtest.Start(t, "fsync=off")
	dsn := c.DSN("postgres", "postgres")

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + ln.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, dsn, token, ln) }()

	// The cron job runs at the start, and asks for the mails. A second one asks in vain.
	db, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	count := func(sql string) (n int) {
		_ = db.QueryRow(context.Background(), sql).Scan(&n) // before there are tables, 0
		return n
	}
	digests := "SELECT count(*) FROM river_job WHERE kind = 'digest' AND state = 'completed'"
	handlertest.WaitFor(t, "the first digest", func() bool { return count(digests) > 0 })
	if _, err := db.Exec(context.Background(), "INSERT INTO river_job (kind, args, max_attempts) VALUES ('digest', '{}', 5)"); err != nil {
		t.Fatal(err)
	}
	handlertest.WaitFor(t, "another digest", func() bool { return count(digests) > 1 })
	handlertest.WaitFor(t, "the mails", func() bool {
		return count("SELECT count(*) FROM river_job WHERE kind = 'mail' AND state = 'completed'") == len(recipients)
	})
	if n := count("SELECT count(*) FROM example_mail"); n != len(recipients) {
		t.Errorf("%d mails were sent, want %d", n, len(recipients))
	}

	ask := func(method, path, password string, header ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			r.SetBasicAuth("anybody", password)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	for path, want := range map[string]string{
		"/debug/shoal/":           "<title>shoal",
		"/debug/shoal/stats.json": `"mails"`,
		"/river/":                 `src="/river/assets/`,
		"/river/api/jobs?state=completed&limit=20": `"kind":"mail"`,
		"/": `src="/river/assets/`,
	} {
		for _, wrong := range []string{"", token + "x"} {
			if status, _ := ask("GET", path, wrong); status != http.StatusUnauthorized {
				t.Errorf("%s with password %q: status %d, want 401", path, wrong, status)
			}
		}
		if status, body := ask("GET", path, token); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, %.300s; want 200 and %s", path, status, body, want)
		}
	}
	handlertest.WaitFor(t, "the page to count the mails", func() bool {
		_, body := ask("GET", "/debug/shoal/stats.json", token)
		var s shoalhttp.Snapshot
		if err := json.Unmarshal([]byte(body), &s); err != nil || len(s.Pools) != 2 {
			t.Fatalf("the page says %s, error %v; want two pools", body, err)
		}
		return s.Pools[1].Completed == uint64(len(recipients))
	})
	// River UI changes what it is told to, but not by a page of another site.
	pause := "/river/api/queues/default/pause"
	if status, body := ask("PUT", pause, token, "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
		t.Errorf("a pause that another site asks for: status %d, %s; want 403", status, body)
	}
	if status, body := ask("PUT", pause, token, "Sec-Fetch-Site", "same-origin"); status != http.StatusOK {
		t.Errorf("a pause: status %d, %s; want 200", status, body)
	}

	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the program ended with %v", err)
		}
	case <-time.After(handlertest.Patience):
		t.Error("the program does not end")
	}
}

func TestBadInput(t *testing.T) {
	for _, bad := range []string{"postgres://127.0.0.1:1/x", "no address"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := run(context.Background(), bad, token, ln); err == nil {
			t.Errorf("-dsn %q: no error", bad)
		}
	}
}
