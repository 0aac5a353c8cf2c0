package explore

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// encode writes decisions as a replay string: a thread, and how often in a row
// it went on; or, after c, a number that was chosen.
func encode(decisions []int8) string {
	var words []string
	for i := 0; i < len(decisions); {
		d := decisions[i]
		n := 1
		for i+n < len(decisions) && decisions[i+n] == d && n < math.MaxUint16 {
			n++
		}
		word := strconv.Itoa(int(d))
		if d < 0 {
			word = "c" + strconv.Itoa(int(-1-d))
		}
		if n > 1 {
			word += "*" + strconv.Itoa(n)
		}
		words = append(words, word)
		i += n
	}
	return strings.Join(words, " ")
}

var errReplay = errors.New("not a replay string")

// decode reads what encode has written.
func decode(s string) (decisions []int8, err error) {
	for _, word := range strings.Fields(s) {
		what, times, more := strings.Cut(word, "*")
		number, choice := strings.CutPrefix(what, "c")
		d, err := strconv.ParseInt(number, 10, 8)
		n := uint64(1)
		if more {
			var err2 error
			n, err2 = strconv.ParseUint(times, 10, 16)
			err = cmp.Or(err, err2)
		}
		if err != nil || d < 0 || !choice && d >= maxThreads {
			return nil, fmt.Errorf("%w: %q", errReplay, word)
		}
		if choice {
			d = -1 - d
		}
		for range n {
			decisions = append(decisions, int8(d))
		}
	}
	return decisions, nil
}

// Replay repeats one run of the model and returns its failure, with a trace,
// or one that says that it did not fail.
func Replay(model func(*M), s string) (*Failure, error) {
	decisions, err := decode(s)
	if err != nil {
		return nil, err
	}
	x := &explorer{model: model, mode: Mode{kind: replay}, reached: map[string]int{}}
	defer x.bury()
	for _, d := range decisions {
		n := node{chosen: d}
		if d < 0 {
			n = node{chosen: -1 - d, choices: 1}
		}
		x.stack = append(x.stack, n)
	}
	r := x.newRun()
	r.trace = new(tracer)
	r.execute()
	why := cmp.Or(r.failure, "it did not fail")
	return &Failure{Why: why, Replay: s, Trace: r.trace.String() + "\n" + r.stack}, nil
}

// A tracer writes down what happens.
type tracer struct {
	lines []string
	files map[string][]string
}

func (t *tracer) String() string { return strings.Join(t.lines, "\n") }

// step is called when a thread goes on with what it announced.
func (t *tracer) step(u *thread, o *op) {
	var objects string
	for _, a := range o.a[:o.n] {
		objects += fmt.Sprintf(" #%d", a.o.id)
	}
	t.lines = append(t.lines, fmt.Sprintf("%4d %-10s %-16s %s", len(t.lines), u.name, o.what+objects, t.source(o.where)))
}

func (t *tracer) chose(u *thread, n int) {
	t.lines = append(t.lines, fmt.Sprintf("%4d %-10s chooses %d", len(t.lines), u.name, n))
}

// source is a place in a source file, with what stands there.
func (t *tracer) source(f runtime.Frame) string {
	name := fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
	if t.files == nil {
		t.files = map[string][]string{}
	}
	lines, ok := t.files[f.File]
	if !ok {
		data, _ := os.ReadFile(f.File) // without, the place alone must do
		lines = strings.Split(string(data), "\n")
		t.files[f.File] = lines
	}
	if f.Line < 1 || f.Line > len(lines) {
		return name
	}
	return fmt.Sprintf("%-16s %s", name, strings.TrimSpace(lines[f.Line-1]))
}

// caller is the place that made the access that is being announced: the first
// that is not the explorer's or the types' it looks through.
func caller() runtime.Frame {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !more || !strings.Contains(f.Function, "/internal/explore.") && !strings.Contains(f.Function, "/internal/sy.") ||
			strings.HasSuffix(f.File, "_test.go") {
			return f
		}
	}
}

// Note adds what an access found, or left behind, to the trace.
func Note(v uint64) {
	if r := now; r != nil && r.trace != nil && len(r.trace.lines) > 0 {
		last := &r.trace.lines[len(r.trace.lines)-1]
		*last += fmt.Sprintf("   → %#x", v)
	}
}
