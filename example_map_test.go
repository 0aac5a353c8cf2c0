package shoal_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shoal-go/shoal"
)

// A pipeline: the second stage takes the results of the first one as they are
// ready, and all stays in order. Each stage has a pool of its own.
func ExampleMap() {
	parsers := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer parsers.Close()
	writers := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
	defer writers.Close()
	ctx := context.Background()

	lines := slices.Values([]string{"one fish", "two fish", "red fish", "blue fish"})
	words := func(yield func([]string) bool) {
		for w, err := range shoal.Map(ctx, parsers, lines, func(_ context.Context, s string) ([]string, error) {
			return strings.Fields(s), nil
		}) {
			if err != nil || !yield(w) {
				return
			}
		}
	}
	for s, err := range shoal.Map(ctx, writers, words, func(_ context.Context, w []string) (string, error) {
		return strings.ToUpper(w[0]) + " " + w[1], nil
	}) {
		fmt.Println(s, err)
	}
	// Output:
	// ONE fish <nil>
	// TWO fish <nil>
	// RED fish <nil>
	// BLUE fish <nil>
}

// The first answer is enough: break calls off the others and waits for them.
func ExampleMapUnordered() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(8)))
	defer pool.Close()

	primes := 0
	for n, err := range shoal.MapUnordered(context.Background(), pool, numbers, func(ctx context.Context, n int) (int, error) {
		for d := 2; d*d <= n; d++ {
			if n%d == 0 {
				return n, fmt.Errorf("%d is divisible by %d", n, d)
			}
		}
		return n, nil
	}) {
		if err == nil && n > 1 {
			if primes++; primes == 25 {
				break
			}
		}
	}
	fmt.Println(primes)
	// Output: 25
}

// numbers are all of them.
func numbers(yield func(int) bool) {
	for n := 0; yield(n); n++ {
	}
}

// All items run; the errors come in the order of the items.
func ExampleForEach() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	stock := map[string]int{"cod": 3, "eel": 0, "ray": 7, "tuna": 0}
	err := shoal.ForEach(context.Background(), pool, slices.Values(slices.Sorted(maps.Keys(stock))),
		func(_ context.Context, fish string) error {
			if stock[fish] == 0 {
				return fmt.Errorf("no %s", fish)
			}
			return nil
		})
	fmt.Println(err)
	// Output:
	// no eel
	// no tuna
}
