package main

import (
	"maps"
	"strings"
	"testing"
)

func TestTakeOut(t *testing.T) {
	const text = `package p_test

import "fmt"
import (
	"os"
	"testing"
)

func TestKept(t *testing.T) {}

// It looks inside.
func TestInside(t *testing.T) {
	_ = p.inside
}

func helper() { fmt.Println(p.inside) }

func TestHelped(t *testing.T) { helper() }

var (
	a = 1
	b = p.inside
)
`
	line := func(of string) int {
		before, _, ok := strings.Cut(text, of)
		if !ok {
			t.Fatal(of)
		}
		return 1 + strings.Count(before, "\n")
	}
	gone, leftOut := make(map[string]string), make(map[string]string)
	got, found := takeOut(text, map[int]string{
		line("_ = p.inside"):   "no field inside",
		line("func helper"):    "no field inside",
		line(`import "fmt"`):   "not used",
		line(`"os"`):           "not used",
		line("b = p.inside\n"): "no field inside",
	}, gone, leftOut)
	for _, part := range []string{"TestInside", "helper() {", `import "fmt"`, `"os"`, "b = "} {
		if strings.Contains(got, part) {
			t.Errorf("it has %s yet", part)
		}
	}
	for _, part := range []string{`"testing"`, "TestKept", "a = 1", "TestHelped"} {
		if !strings.Contains(got, part) {
			t.Errorf("it has no %s", part)
		}
	}
	at := 1 + strings.Count(got[:strings.Index(got, "func TestHelped")], "\n")
	got, found2 := takeOut(got, map[int]string{at: "undefined: helper"}, gone, leftOut)
	if !found || !found2 || strings.Contains(got, "TestHelped") {
		t.Errorf("%v, %v:\n%s", found, found2, got)
	}
	want := map[string]string{
		"TestInside": "no field inside",
		"TestHelped": "helper is left out: no field inside",
	}
	if !maps.Equal(leftOut, want) {
		t.Errorf("left out: %v, want %v", leftOut, want)
	}
	if _, found := takeOut(got, map[int]string{1000: "elsewhere"}, gone, leftOut); found {
		t.Error("it took something out for a message about another place")
	}
}
