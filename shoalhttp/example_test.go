package shoalhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"github.com/shoal-go/shoal/shoalhttp"
)

func ExampleHandler() {
	images := shoal.Must(shoal.New(shoal.WithName("images")))
	mails := shoal.Must(shoal.New(shoal.WithName("mails")))
	defer images.Close()
	defer mails.Close()

	mux := http.NewServeMux()
	mux.Handle("/debug/shoal/", shoalhttp.Handler(images, mails))
	server := httptest.NewServer(mux) // in a program: go http.ListenAndServe("localhost:6060", mux)
	defer server.Close()

	resp, err := http.Get(server.URL + "/debug/shoal/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, strings.Contains(string(page), "images"), strings.Contains(string(page), "mails"))
	// Output: 200 OK true true
}

// Controls need a token, that people are asked for on the page.
func ExampleNew() {
	pool := shoal.Must(shoal.New(shoal.WithName("images")))
	defer pool.Close()
	page, err := shoalhttp.New(
		shoalhttp.WithPools(pool),
		shoalhttp.WithControls("from the program's secrets"),
		shoalhttp.WithHosts("debug.example.com"), // a proxy on this machine
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	http.Handle("/debug/shoal/", page)

	_, err = shoalhttp.New(shoalhttp.WithPools(pool, pool), shoalhttp.WithControls("hunter2"))
	fmt.Println(err)
	// Output:
	// shoalhttp: pools[1] is named "images", as another pool: want names that differ, by shoal.WithName
	// shoalhttp: WithControls: the token has 7 bytes: want at least 16
}

// The page says what a durable queue holds, and what is wrong with it.
func ExampleWithQueue() {
	queue := jobstest.NewQueue(time.Minute) // in a program: one of contrib/sql or contrib/nats
	if err := queue.Enqueue(context.Background(), jobs.Message{Data: []byte("a")}, jobs.Message{Data: []byte("b"), Delay: time.Hour}); err != nil {
		fmt.Println(err)
		return
	}
	page, err := shoalhttp.New(
		shoalhttp.WithQueue("mails", queue),
		shoalhttp.WithControls("from the program's secrets"), // for its dead letters
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	rec := httptest.NewRecorder()
	page.ServeHTTP(rec, httptest.NewRequest("GET", "/debug/shoal/queues.json", nil))
	var all shoalhttp.Queues
	if err := json.Unmarshal(rec.Body.Bytes(), &all); err != nil {
		fmt.Println(err)
		return
	}
	for _, q := range all.Queues {
		fmt.Println(q.Name, q.Ready, q.Delayed, q.Leased, q.Dead)
	}
	// Output: mails 1 1 0 0
}
