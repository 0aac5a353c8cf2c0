package shoal_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"sync/atomic"

	"github.com/shoal-go/shoal"
)

// Count words in many texts, four at a time. This is a whole program.
func Example() {
	pool, err := shoal.New(shoal.WithMaxWorkers(4))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close() // whatever happens below, nothing is left behind

	texts := []string{"to be or not to be", "that is the question", "whether tis nobler in the mind"}
	var words atomic.Int64
	for _, text := range texts {
		err := pool.Submit(func() {
			words.Add(int64(len(strings.Fields(text))))
		})
		if err != nil {
			log.Fatal(err)
		}
	}

	// Shutdown runs what was accepted, then ends the workers.
	if err := pool.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(words.Load(), "words")
	// Output: 16 words
}
