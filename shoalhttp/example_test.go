package shoalhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/shoal-go/shoal"
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
