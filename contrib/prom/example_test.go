package prom_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/contrib/prom"
)

func Example() {
	pool := shoal.Must(shoal.New(shoal.WithName("thumbnails"), shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(100)))
	defer pool.Close()
	urgent := shoal.Must(pool.Sub(shoal.WithName("urgent"), shoal.WithPriority(1)))
	defer urgent.Close() // a sub-pool that nobody refers to any more is collected, and not seen

	collector, err := prom.NewCollector(pool)
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry() // or prometheus.MustRegister(collector)
	registry.MustRegister(collector)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()

	for range 10 {
		pool.Submit(func() {})
	}
	urgent.Submit(func() {})
	pool.Wait()
	urgent.Wait()

	page, err := http.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Body.Close()
	for lines := bufio.NewScanner(page.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "shoal_pool_task_completed_total") || strings.HasPrefix(line, "shoal_pool_queue") {
			fmt.Println(line)
		}
	}
	// Output:
	// shoal_pool_queue_capacity{shoal_pool_name="thumbnails"} 100
	// shoal_pool_queue_capacity{shoal_pool_name="thumbnails/urgent"} 1.048576e+06
	// shoal_pool_queue_size{shoal_pool_name="thumbnails"} 0
	// shoal_pool_queue_size{shoal_pool_name="thumbnails/urgent"} 0
	// shoal_pool_task_completed_total{shoal_pool_name="thumbnails"} 10
	// shoal_pool_task_completed_total{shoal_pool_name="thumbnails/urgent"} 1
}

// Pools that come and go.
func ExampleCollector_Add() {
	collector, err := prom.NewCollector()
	if err != nil {
		fmt.Println(err)
		return
	}
	prometheus.NewRegistry().MustRegister(collector)

	job := shoal.Must(shoal.New(shoal.WithName("import")))
	if err := collector.Add(job); err != nil {
		fmt.Println(err)
	}
	other := shoal.Must(shoal.New(shoal.WithName("import")))
	fmt.Println(collector.Add(other, nil))

	job.Close() // goes on to be reported, with its last counts
	collector.Remove(job)
	fmt.Println(collector.Add(other))
	other.Close()
	// Output:
	// prom: pools[0] is named "import", as another pool: want names that differ
	// prom: pools[1] is nil
	// <nil>
}
