package shoalexpvar_test

import (
	"encoding/json"
	"expvar"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalexpvar"
)

func Example() {
	images := shoal.Must(shoal.New(shoal.WithName("images"), shoal.WithMaxWorkers(4)))
	defer images.Close()
	if err := shoalexpvar.Publish("pools", images); err != nil {
		fmt.Println(err)
		return
	}
	images.Submit(func() {})
	images.Wait()

	var all map[string]struct{ Completed, MaxWorkers int }
	json.Unmarshal([]byte(expvar.Get("pools").String()), &all) // as from /debug/vars
	fmt.Println(all["images"].Completed, all["images"].MaxWorkers)
	fmt.Println(shoalexpvar.Publish("pools", images))
	// Output:
	// 1 4
	// shoalexpvar: there is a variable "pools" already: want another name
}

// newName is a name that no variable has: variables stay.
func newName(t *testing.T) string {
	name := t.Name()
	for i := 0; expvar.Get(name) != nil; i++ {
		name = fmt.Sprint(t.Name(), i)
	}
	return name
}

func TestEveryStatisticIsPublished(t *testing.T) {
	p := shoal.Must(shoal.New(shoal.WithName("a"), shoal.WithQueueCapacity(shoal.Unbounded), shoal.WithTiming(shoal.TimingFull),
		shoal.WithPanicHandler(func(*shoal.PanicError) {})))
	defer p.Close()
	p.Submit(func() { panic("boom") })
	p.Wait()
	name := newName(t)
	if err := shoalexpvar.Publish(name, p); err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]any
	if err := json.Unmarshal([]byte(expvar.Get(name).String()), &all); err != nil {
		t.Fatal(err)
	}
	got := all["a"]
	if got["Failed"] != 1.0 || got["QueueCapacity"] != -1.0 || got["State"] != "Open" || got["RunSeconds"].(map[string]any)["Count"] != 1.0 {
		t.Errorf("%v", got)
	}
	for f := range reflect.TypeFor[shoal.Stats]().Fields() {
		name := f.Name
		switch name {
		case "Name": // the key
			continue
		case "Stalled":
			name = "StalledSeconds"
		case "WaitTime", "RunTime", "BusyTime":
			name = strings.TrimSuffix(name, "Time") + "Seconds"
		}
		if _, ok := got[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestBadInput(t *testing.T) {
	a, b := shoal.Must(shoal.New(shoal.WithName("same"))), shoal.Must(shoal.New(shoal.WithName("same")))
	defer a.Close()
	defer b.Close()
	err := shoalexpvar.Publish(t.Name(), a, nil, b)
	for _, want := range []string{"pools[1] is nil", `pools[2] is named "same"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	if expvar.Get(t.Name()) != nil {
		t.Error("it was published")
	}
}

func TestTheCallerMayChangeItsPools(t *testing.T) {
	a := shoal.Must(shoal.New(shoal.WithName("a")))
	defer a.Close()
	pools, name := []*shoal.Pool{a}, newName(t)
	if err := shoalexpvar.Publish(name, pools...); err != nil {
		t.Fatal(err)
	}
	pools[0] = nil
	var all map[string]any
	if err := json.Unmarshal([]byte(expvar.Get(name).String()), &all); err != nil || all["a"] == nil {
		t.Errorf("%v, %v", all, err)
	}
}

func TestNamesThatAreNotUTF8(t *testing.T) {
	a, b := shoal.Must(shoal.New(shoal.WithName("\xff"))), shoal.Must(shoal.New(shoal.WithName("\xfe")))
	defer a.Close()
	defer b.Close()
	name := newName(t)
	if err := shoalexpvar.Publish(name, a, b); err == nil || !strings.Contains(err.Error(), `pools[1] is named "\xfe"`) {
		t.Fatalf("two names that are the same in JSON: %v", err)
	}
	if err := shoalexpvar.Publish(name, a); err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(expvar.Get(name).String()), &all); err != nil || len(all) != 1 || all["\uFFFD"] == nil {
		t.Errorf("%v, %v", all, err)
	}
}
