// Command conformance puts every pool through one contract: about a hundred
// named cases, each with each pool in a process of its own, because a pool that
// fails may hang or crash. It prints who passes what, as a table in Markdown.
//
//	go run ./bench/conformance                # all
//	go run ./bench/conformance -pools shoal   # one
//	go run ./bench/conformance -run 'stop/'   # some cases
//	go run ./bench/conformance -update        # all, and into the documents
//
// A case that a pool's own documentation calls misuse, or promises nothing
// about, is marked as such. What a pool does not offer is a dash.
package main

import (
	"bytes"
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
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
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
		update   = flag.Bool("update", false, "in the root of the repository: put the tables into README.md and docs/conformance.md")
	)
	flag.Parse()
	err := run(os.Stdout, *cases, *pools, *parallel, *why)
	if *update && err == nil {
		err = fill()
	}
	if err != nil {
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

func run(w io.Writer, cases, pools string, parallel int, why bool) error {
	rc, err := regexp.Compile(cases)
	if err != nil {
		return err
	}
	rp, err := regexp.Compile(pools)
	if err != nil {
		return err
	}
	if parallel < 1 {
		return fmt.Errorf("-parallel %d: must be at least 1", parallel)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	var chosen []*testCase
	for i := range contract {
		if rc.MatchString(contract[i].name) {
			chosen = append(chosen, &contract[i])
		}
	}
	var who []subject
	for _, s := range subjects {
		if rp.MatchString(s.name) {
			who = append(who, s)
		}
	}
	if len(chosen) == 0 || len(who) == 0 {
		return errors.New("nothing matches")
	}
	results := make([][]outcome, len(chosen))
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, c := range chosen {
		results[i] = make([]outcome, len(who))
		for j, s := range who {
			slots <- struct{}{}
			wg.Go(func() {
				results[i][j] = inProcess(exe, c, s)
				<-slots
			})
		}
	}
	wg.Wait()
	table(w, chosen, who, results)
	fmt.Fprintln(w)
	groups(w, chosen, who, results)
	if why {
		fmt.Fprintln(w)
		reasons(w, chosen, who, results)
	}
	for name, print := range map[string]func(io.Writer, []*testCase, []subject, [][]outcome){"table": table, "groups": groups, "reasons": reasons} {
		var b bytes.Buffer
		print(&b, chosen, who, results)
		documents[name] = b.Bytes()
	}
	for j, s := range who {
		for i := range chosen {
			if r := results[i][j]; s.name == "shoal" && r.Mark != "ok" {
				return fmt.Errorf("shoal, %s: %s %s", chosen[i].name, r.Mark, r.Why)
			}
		}
	}
	return nil
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

// table prints one row per case, and the sums below.
func table(w io.Writer, cases []*testCase, who []subject, results [][]outcome) {
	v := versions()
	fmt.Fprint(w, "| case |")
	for _, s := range who {
		fmt.Fprintf(w, " %s |", strings.TrimSpace(s.name+" "+v[s.module]))
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(who)))
	passed, offered := make([]int, len(who)), make([]int, len(who))
	for i, c := range cases {
		fmt.Fprintf(w, "| %s |", c.name)
		for j := range who {
			m := results[i][j].Mark
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
	for j := range who {
		fmt.Fprintf(w, " **%d of %d** |", passed[j], offered[j])
	}
	fmt.Fprintln(w)
}

// versions are those of all modules, from the build info.
func versions() map[string]string {
	v := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			v[m.Path] = m.Version
		}
	}
	delete(v, "github.com/shoal-go/shoal") // it is this checkout
	return v
}

// A testCase is one clause of the contract.
type testCase struct {
	name string
	run  func(c *check)
	// mayMiss are the pools whose documentation calls this misuse, or says that
	// they behave otherwise.
	mayMiss []string
}

func (c *testCase) misuse(s subject) bool {
	for _, m := range c.mayMiss {
		if m == s.name {
			return true
		}
	}
	return false
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

// documents are what belongs between the marks of the documents.
var documents = map[string][]byte{}

var mark = regexp.MustCompile(`(?s)(<!-- contract: (\w+) -->\n).*?(<!-- end -->)`)

func fill() error {
	for _, file := range []string{"README.md", "docs/conformance.md"} {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		data = mark.ReplaceAllFunc(data, func(old []byte) []byte {
			m := mark.FindSubmatch(old)
			return slices.Concat(m[1], documents[string(m[2])], m[3])
		})
		if err := os.WriteFile(file, data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// reasons says why, of each failure.
func reasons(w io.Writer, cases []*testCase, who []subject, results [][]outcome) {
	for j, s := range who {
		for i, c := range cases {
			if r := results[i][j]; r.Why != "" {
				why, _, _ := strings.Cut(r.Why, "\n")
				fmt.Fprintf(w, "- %s, %s: %s: %s\n", s.name, c.name, r.Mark, why)
			}
		}
	}
}

// groups is the table in short: how many of its cases a pool passes, of those
// that it offers and that are no misuse.
func groups(w io.Writer, cases []*testCase, who []subject, results [][]outcome) {
	v := versions()
	fmt.Fprint(w, "| |")
	for _, s := range who {
		fmt.Fprintf(w, " %s |", strings.TrimSpace(s.name+" "+v[s.module]))
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(who)))
	line := func(title string, prefix string) {
		fmt.Fprintf(w, "| %s |", title)
		for j := range who {
			passed, offered := 0, 0
			for i, c := range cases {
				if m := results[i][j].Mark; strings.HasPrefix(c.name, prefix) && m != "–" && !strings.HasPrefix(m, "(") {
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
		for _, c := range cases {
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
	{"call", "results"}, {"panic", "panics"}, {"goexit", "runtime.Goexit, t.FailNow"}, {"stop", "stopping"}, {"wait", "waiting for idleness"},
	{"resize", "resizing"}, {"pause", "pausing"}, {"context", "contexts"}, {"memory", "memory and goroutines"}, {"count", "counters"},
	{"odd", "odd input, odd places"},
}
