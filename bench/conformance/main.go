// Command conformance tests every pool against one contract: 120
// named cases, each with each pool in a process of its own, because a pool that
// fails may hang or crash. It prints which pool passes which case, as a table in Markdown.
//
//	go run ./bench/conformance                # all
//	go run ./bench/conformance -pools shoal   # one
//	go run ./bench/conformance -run 'stop/'   # some cases
//	go run ./bench/conformance -update        # all, and into docs/conformance.md
//
// A case that a pool's own documentation calls misuse, or promises nothing
// about, is marked as such. What a pool does not offer is a dash.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/bench/marks"
)

const (
	childEnv = "SHOAL_CONFORMANCE_CASE"
	limit    = 10 * time.Second // for a case; those that pass take far less than one
)

func main() {
	child()
	var (
		cases    = flag.String("run", "", "only cases whose name matches this `regexp`")
		pools    = flag.String("pools", "", "only pools whose name matches this `regexp`")
		parallel = flag.Int("parallel", 4, "processes at once")
		why      = flag.Bool("why", false, "say of each failure why")
		update   = flag.Bool("update", false, "in the root of the repository: put the tables into docs/conformance.md")
	)
	flag.Parse()
	r, err := run(*cases, *pools, *parallel)
	if err == nil {
		r.print(os.Stdout, *why)
		if *update {
			err = r.fill()
		}
	}
	if err = cmp.Or(err, r.shoal()); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// An outcome is how a case went with a pool.
type outcome struct {
	Mark string // ok, FAIL, HANG, crash, –
	Why  string
}

// child runs the case that the parent process asked for, if this is a child.
func child() {
	name, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	var ask struct{ Case, Pool string }
	if err := json.Unmarshal([]byte(name), &ask); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, c := range contract {
		for _, s := range subjects {
			if c.name == ask.Case && s.name == ask.Pool {
				if err := json.NewEncoder(os.Stdout).Encode(c.try(s)); err != nil {
					os.Exit(1)
				}
				os.Exit(0)
			}
		}
	}
	fmt.Fprintln(os.Stderr, "no such case or pool:", name)
	os.Exit(1)
}

// results are the outcomes of some cases with some pools.
type results struct {
	cases    []*testCase
	who      []subject
	outcomes [][]outcome // of each case, of each pool
}

func run(cases, pools string, parallel int) (r results, err error) {
	rc, err := regexp.Compile(cases)
	if err != nil {
		return r, err
	}
	rp, err := regexp.Compile(pools)
	if err != nil {
		return r, err
	}
	if parallel < 1 {
		return r, fmt.Errorf("-parallel %d: must be at least 1", parallel)
	}
	exe, err := os.Executable()
	if err != nil {
		return r, err
	}
	for i := range contract {
		if rc.MatchString(contract[i].name) {
			r.cases = append(r.cases, &contract[i])
		}
	}
	for _, s := range subjects {
		if rp.MatchString(s.name) && (pools != "" || !strings.HasSuffix(s.name, onShoal)) {
			r.who = append(r.who, s)
		}
	}
	if len(r.cases) == 0 || len(r.who) == 0 {
		return r, errors.New("nothing matches")
	}
	r.outcomes = make([][]outcome, len(r.cases))
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, c := range r.cases {
		r.outcomes[i] = make([]outcome, len(r.who))
		for j, s := range r.who {
			slots <- struct{}{}
			wg.Go(func() {
				r.outcomes[i][j] = inProcess(exe, c, s)
				<-slots
			})
		}
	}
	wg.Wait()
	return r, nil
}

// shoal says which case shoal fails, if it does.
func (r results) shoal() error {
	for j, s := range r.who {
		for i, c := range r.cases {
			if o := r.outcomes[i][j]; s.name == "shoal" && o.Mark != "ok" {
				return fmt.Errorf("shoal, %s: %s %s", c.name, o.Mark, o.Why)
			}
		}
	}
	return nil
}

// print prints everything.
func (r results) print(w io.Writer, why bool) {
	r.table(w)
	fmt.Fprintln(w)
	r.groups(w)
	if why {
		fmt.Fprintln(w)
		r.reasons(w)
	}
}

// fill puts everything into the documents.
func (r results) fill() error {
	part := func(print func(io.Writer)) func(io.Writer) error {
		return func(w io.Writer) error { print(w); return nil }
	}
	parts := map[string]func(io.Writer) error{"table": part(r.table), "groups": part(r.groups), "reasons": part(r.reasons)}
	return marks.Fill("docs/conformance.md", "contract", parts)
}

func inProcess(exe string, c *testCase, s subject) outcome {
	ask, err := json.Marshal(struct{ Case, Pool string }{c.name, s.name})
	if err != nil {
		return outcome{"FAIL", err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childEnv+"="+string(ask))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var o outcome
	switch {
	case err != nil && c.end != "" && strings.Contains(lastPanic(stderr.String()), c.end):
		o = outcome{"ok", ""}
	case ctx.Err() != nil:
		o = outcome{"HANG", "the process had to be killed"}
	case err != nil:
		o = outcome{"crash", firstLine(stderr.String())}
	default:
		if err := json.Unmarshal(lastLine(stdout.Bytes()), &o); err != nil {
			o = outcome{"FAIL", err.Error()}
		}
	}
	if o.Mark != "ok" && o.Mark != "–" && c.misuse(s) {
		o.Mark = "(" + o.Mark + ")"
	}
	return o
}

// lastPanic is the panic that has ended a process which has printed s, without the stack.
func lastPanic(s string) string {
	i := strings.Index(s, "panic:")
	if i < 0 {
		return ""
	}
	panics, _, _ := strings.Cut(s[i:], "\n\n") // the first one, and those that came while it was handled
	lines := strings.Split(panics, "\n")
	last := lines[0]
	for _, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "panic:") {
			last = line
		}
	}
	return last
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return strings.TrimSpace(line)
		}
	}
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func lastLine(b []byte) []byte {
	b = bytes.TrimSpace(b)
	return b[bytes.LastIndexByte(b, '\n')+1:]
}

// header begins a table with a column for each pool.
func (r results) header(w io.Writer, first string) {
	v := bench.Versions()
	delete(v, "github.com/shoal-go/shoal") // it is this checkout
	fmt.Fprintf(w, "| %s |", first)
	for _, s := range r.who {
		fmt.Fprintf(w, " %s |", strings.TrimSpace(s.name+" "+v[s.module]))
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(r.who)))
}

// table prints one row per case, and the sums below.
func (r results) table(w io.Writer) {
	r.header(w, "case")
	passed, offered := make([]int, len(r.who)), make([]int, len(r.who))
	for i, c := range r.cases {
		fmt.Fprintf(w, "| %s |", c.name)
		for j := range r.who {
			m := r.outcomes[i][j].Mark
			switch {
			case m == "ok":
				passed[j]++
				offered[j]++
			case m == "–" || strings.HasPrefix(m, "("):
			default:
				offered[j]++
				m = "**" + m + "**"
			}
			fmt.Fprintf(w, " %s |", m)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "| **passed, of what it offers** |")
	for j := range r.who {
		fmt.Fprintf(w, " **%d of %d** |", passed[j], offered[j])
	}
	fmt.Fprintln(w)
}

// A testCase is one clause of the contract.
type testCase struct {
	name string
	run  func(c *check)
	// mayMiss are the pools whose documentation calls this misuse, or says that
	// they behave otherwise.
	mayMiss []string
	// end is what the process may end with: the text of a panic. Empty: it must not.
	end string
}

func (c *testCase) misuse(s subject) bool {
	return slices.Contains(c.mayMiss, s.name)
}

// A check is a case under way.
type check struct {
	s       subject
	mu      sync.Mutex
	why     string
	lacking bool
}

type lacking struct{}

// failf notes a failure; the first one counts.
func (c *check) failf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == "" {
		c.why = fmt.Sprintf(format, args...)
	}
}

// need ends the case unless the pool offers all of that.
func (c *check) need(offered ...bool) {
	for _, o := range offered {
		if !o {
			panic(lacking{})
		}
	}
}

// try runs the case here and now.
func (tc *testCase) try(s subject) outcome {
	c := &check{s: s}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			switch v := recover(); v.(type) {
			case nil:
			case lacking:
				c.mu.Lock()
				c.lacking = true
				c.mu.Unlock()
			default:
				c.failf("panic: %v", v)
			}
		}()
		tc.run(c)
	}()
	hung := false
	select {
	case <-done:
	case <-time.After(limit):
		hung = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.why != "":
		return outcome{"FAIL", c.why}
	case hung:
		return outcome{"HANG", fmt.Sprintf("no end after %v", limit)}
	case c.lacking:
		return outcome{"–", ""}
	}
	return outcome{"ok", ""}
}

// settle gives goroutines that are about to end time to do so, up to a second,
// and returns how many more than base there are.
func settle(base int) int {
	for range 100 {
		if runtime.NumGoroutine() <= base {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return runtime.NumGoroutine() - base
}

// reasons says why, of each failure.
func (r results) reasons(w io.Writer) {
	for j, s := range r.who {
		for i, c := range r.cases {
			if o := r.outcomes[i][j]; o.Why != "" {
				why, _, _ := strings.Cut(o.Why, "\n")
				fmt.Fprintf(w, "- %s, %s: %s: %s\n", s.name, c.name, o.Mark, why)
			}
		}
	}
}

// groups is the table in short: how many of its cases a pool passes, of those
// that it offers and that are no misuse.
func (r results) groups(w io.Writer) {
	r.header(w, "")
	line := func(title string, prefix string) {
		fmt.Fprintf(w, "| %s |", title)
		for j := range r.who {
			passed, offered := 0, 0
			for i, c := range r.cases {
				if m := r.outcomes[i][j].Mark; strings.HasPrefix(c.name, prefix) && m != "–" && !strings.HasPrefix(m, "(") {
					offered++
					if m == "ok" {
						passed++
					}
				}
			}
			switch {
			case offered == 0:
				fmt.Fprint(w, " – |")
			case passed < offered:
				fmt.Fprintf(w, " **%d of %d** |", passed, offered)
			default:
				fmt.Fprintf(w, " %d of %d |", passed, offered)
			}
		}
		fmt.Fprintln(w)
	}
	for _, g := range titles {
		for _, c := range r.cases {
			if strings.HasPrefix(c.name, g[0]+"/") {
				line(g[1], g[0]+"/")
				break
			}
		}
	}
	line("all", "")
}

// titles of the groups of cases.
var titles = [][2]string{
	{"once", "each task once"}, {"order", "order, and what is seen"}, {"bound", "the bounds"}, {"nested", "tasks that submit tasks"},
	{"call", "results"}, {"group", "groups"}, {"panic", "panics"}, {"goexit", "runtime.Goexit, t.FailNow"}, {"stop", "stopping"}, {"wait", "waiting for idleness"},
	{"resize", "resizing"}, {"pause", "pausing"}, {"context", "contexts"}, {"memory", "memory and goroutines"}, {"count", "counters"},
	{"odd", "odd input, odd places"},
}
