package shoal_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	"github.com/shoal-go/shoal"
)

// A compressor is costly to make and not safe for several goroutines: each
// worker has one, made when it is first needed.
func ExampleLocal() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
	defer pool.Close()
	writers := shoal.NewLocal(pool,
		func(worker int) (*gzip.Writer, error) { return gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) },
		func(z *gzip.Writer) { z.Close() })

	compress := func(text string) *shoal.Future[[]byte] {
		return shoal.Go(context.Background(), pool, func(ctx context.Context) ([]byte, error) {
			z, err := writers.Get(ctx)
			if err != nil {
				return nil, err
			}
			var out bytes.Buffer
			z.Reset(&out)
			io.WriteString(z, text)
			err = z.Close()
			return out.Bytes(), err
		})
	}
	small, err := compress("a shoal of fish").Wait(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(small))
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := io.ReadAll(z)
	fmt.Println(string(text), err)
	// Output: a shoal of fish <nil>
}
