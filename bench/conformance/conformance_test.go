package main

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	child()
	os.Exit(m.Run())
}

// TestShoalPassesTheContract runs every case with shoal, each in a process of
// its own.
func TestShoalPassesTheContract(t *testing.T) {
	var out bytes.Buffer
	r, err := run("", "^shoal$", 2)
	r.print(&out, true)
	if err = cmp.Or(err, r.shoal()); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if n := strings.Count(out.String(), "| ok |"); n != len(contract) {
		t.Errorf("%d of %d cases were passed:\n%s", n, len(contract), &out)
	}
}

// TestTheContractCanFail: a pool that loses tasks, or hangs, is found out.
func TestTheContractCanFail(t *testing.T) {
	broken := map[string]subject{
		"once/one task": {"loses", "", func(s spec) pool {
			p := newShoal(s)
			p.submit = func(func()) error { return nil }
			return p
		}},
		"once/10,000 tasks, one worker": {"doubles", "", func(s spec) pool {
			p := newShoal(s)
			submit := p.submit
			p.submit = func(f func()) error { return submit(func() { f(); f() }) }
			return p
		}},
		"bound/never more at once than workers": {"has no bound", "", func(s spec) pool {
			s.workers *= 2
			return newShoal(s)
		}},
		"stop/runs all that was accepted": {"stops too early", "", func(s spec) pool {
			p := newShoal(s)
			p.stop = func() {}
			return p
		}},
		"panic/the handler gets the value, once": {"has no handler", "", func(s spec) pool {
			s.onPanic = func(any) {}
			return newShoal(s)
		}},
	}
	for i := range contract {
		c := &contract[i]
		s, ok := broken[c.name]
		if !ok {
			continue
		}
		delete(broken, c.name)
		if o := c.try(s); o.Mark != "FAIL" {
			t.Errorf("a pool that %s: %s: %v", s.name, c.name, o)
		}
	}
	if len(broken) > 0 {
		t.Errorf("no such cases: %v", broken)
	}
}

// TestEveryCaseIsInAGroup: else it would not be in the short table.
func TestEveryCaseIsInAGroup(t *testing.T) {
	names := map[string]bool{}
	for _, c := range contract {
		group, _, _ := strings.Cut(c.name, "/")
		if !slices.ContainsFunc(titles, func(g [2]string) bool { return g[0] == group }) {
			t.Errorf("%s is in no group", c.name)
		}
		if names[c.name] {
			t.Errorf("two cases are called %s", c.name)
		}
		names[c.name] = true
	}
	if len(contract) < 100 {
		t.Errorf("%d cases", len(contract))
	}
}

func TestBadArguments(t *testing.T) {
	for _, c := range []struct {
		cases, pools string
		parallel     int
	}{{"(", "", 1}, {"", "(", 1}, {"nosuchcase", "", 1}, {"", "nosuchpool", 1}, {"", "", 0}} {
		if _, err := run(c.cases, c.pools, c.parallel); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
