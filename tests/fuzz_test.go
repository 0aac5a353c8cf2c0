package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// ----- a pool against its model -----

// A script is a pool's options and a list of operations. After each operation
// everybody comes to rest, so a simple model says what must have become of
// every task.
//
// Tasks either return at once or are held until the script releases them.

// A mTask is a task of the model.
type mTask struct {
	id       int
	held     bool
	faulty   bool // panics
	gate     chan struct{}
	cancel   context.CancelFunc // of a task with a context
	canceled bool
}

// A mSubmit is a submission that may still be waiting for free capacity.
type mSubmit struct {
	t    *mTask
	err  error
	done <-chan struct{} // closed when the call has returned
	want error           // what it must have returned
	wait bool            // it must not have returned
}

// A mCount is what the model expects of Stats.
type mCount struct{ submitted, completed, failed, rejected, dropped, canceled, spawned uint64 }

type poolModel struct {
	t *testing.T
	p *shoal.Pool

	min, max, capacity int
	policy             shoal.FullPolicy
	paused             bool
	refusing, stopped  bool // Shutdown or Close; Close

	queue   []*mTask   // accepted, waiting
	room    []*mSubmit // waiting for free capacity, in order
	running []*mTask   // held, on workers
	outside []*mTask   // held, on other goroutines
	started map[int]bool
	count   mCount
	cut     bool // Close dropped something

	wasQuiet bool // it may have been quiescent for a moment as it came to rest

	all     []*mSubmit
	waits   []<-chan struct{} // calls of Wait that must not have returned
	ends    []<-chan struct{} // calls of Shutdown and Close that must not have returned
	results []*error          // of Shutdown
	held    []*mTask          // every task with a gate that is shut

	mu  sync.Mutex
	ran map[int]int // by the tasks themselves
	log []string    // the script, in words
}

func (m *poolModel) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *poolModel) fatalf(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf("%s\nafter:\n\t%s", fmt.Sprintf(format, args...), strings.Join(m.log, "\n\t"))
}

// roomLeft is how many more tasks the pool may accept. A paused one accepts as others do, and
// what runs beyond a maximum that was lowered counts against the capacity.
func (m *poolModel) roomLeft() int {
	return m.capacity + m.max - len(m.queue) - len(m.running)
}

// settle lets the model's workers do what they can. A submitter that waits for free capacity is
// called to take it. The tasks that are there may have ended before it comes: then the pool was
// quiescent for a moment.
func (m *poolModel) settle() {
	m.wasQuiet = false
	for {
		switch {
		case !m.paused && len(m.queue) > 0 && len(m.running) < m.max:
			t := m.queue[0]
			m.queue = m.queue[1:]
			m.begin(t, &m.running)
		case len(m.room) > 0 && m.roomLeft() > 0:
			m.wasQuiet = m.wasQuiet || len(m.queue)+len(m.running)+len(m.outside) == 0
			s := m.room[0]
			m.room = m.room[1:]
			s.wait = false
			m.count.submitted++
			m.queue = append(m.queue, s.t)
		default:
			return
		}
	}
}

// begin starts t, on a worker or, for outside, elsewhere.
func (m *poolModel) begin(t *mTask, where *[]*mTask) {
	if t.canceled {
		m.count.canceled++
		return
	}
	m.started[t.id] = true
	if t.held {
		*where = append(*where, t)
		return
	}
	m.finish(t)
}

func (m *poolModel) finish(t *mTask) {
	m.count.completed++
	if t.faulty {
		m.count.failed++
	}
}

// submit is what one submission does.
func (m *poolModel) submit(s *mSubmit, policy shoal.FullPolicy) {
	accept := func() { m.count.submitted++ }
	switch {
	case m.refusing:
		s.want = shoal.ErrClosed
		return
	case len(m.room) == 0 && m.roomLeft() > 0:
		accept()
		m.queue = append(m.queue, s.t)
		return
	}
	switch policy {
	case shoal.Block:
		s.wait = true
		m.room = append(m.room, s)
	case shoal.Spawn:
		accept()
		m.count.spawned++
		m.begin(s.t, &m.outside)
	case shoal.CallerRuns:
		accept()
		s.wait = s.t.held
		m.begin(s.t, &m.outside)
	case shoal.DropOldest:
		if m.capacity > 0 && len(m.queue) > 0 {
			m.drop(m.queue[0])
			m.queue = m.queue[1:]
			accept()
			m.queue = append(m.queue, s.t)
			return
		}
		fallthrough
	default:
		m.count.rejected++
		s.want = shoal.ErrQueueFull
	}
}

func (m *poolModel) drop(*mTask) { m.count.dropped++ }

// newTask makes a task and the function that is it.
func (m *poolModel) newTask(arg byte) (*mTask, func()) {
	t := &mTask{id: len(m.all), held: arg&1 != 0, faulty: arg&6 == 6}
	if t.held {
		t.gate = make(chan struct{})
		m.held = append(m.held, t)
	}
	return t, func() {
		m.mu.Lock()
		m.ran[t.id]++
		m.mu.Unlock()
		if t.held {
			<-t.gate
		}
		if t.faulty {
			panic("as told")
		}
	}
}

// call makes a submission in the background.
func (m *poolModel) call(t *mTask, f func() error) *mSubmit {
	s := &mSubmit{t: t}
	m.all = append(m.all, s)
	s.done = inBackground(func() { s.err = f() })
	return s
}

// step does one operation, on both sides.
func (m *poolModel) step(op, arg byte) {
	p := m.p
	switch op % 16 {
	case 0, 1, 2:
		t, f := m.newTask(arg)
		m.note("Submit(%d) held=%t", t.id, t.held)
		m.submit(m.call(t, func() error { return p.Submit(f) }), m.policy)
	case 3:
		t, f := m.newTask(arg)
		m.note("TrySubmit(%d) held=%t", t.id, t.held)
		m.submit(m.call(t, func() error { return p.TrySubmit(f) }), shoal.Reject)
	case 4, 5:
		t, f := m.newTask(arg)
		m.note("SubmitContext(%d) held=%t", t.id, t.held)
		ctx, cancel := context.WithCancel(context.Background())
		t.cancel = cancel
		m.submit(m.call(t, func() error { return p.SubmitContext(ctx, func(context.Context) { f() }) }), m.policy)
	case 6:
		m.batch(int(arg % 8))
	case 7:
		m.cancelOne(int(arg))
	case 8, 9, 10:
		if len(m.held) > 0 {
			t := m.held[int(arg)%len(m.held)]
			m.note("release %d", t.id)
			m.release(t)
		}
	case 11:
		m.note("Pause")
		p.Pause()
		m.paused = m.paused || !m.refusing
	case 12:
		m.note("Resume")
		p.Resume()
		m.paused = false
	case 13:
		lo, hi := int(arg>>4)%4, int(arg)%5
		m.note("Resize(%d, %d)", lo, hi)
		err := p.Resize(lo, hi)
		switch {
		case hi < 1 || lo > hi:
			if !errors.Is(err, shoal.ErrConfig) {
				m.fatalf("Resize(%d, %d) = %v", lo, hi, err)
			}
		case m.refusing:
			if err != shoal.ErrClosed {
				m.fatalf("Resize(%d, %d) = %v", lo, hi, err)
			}
		default:
			if err != nil {
				m.fatalf("Resize(%d, %d) = %v", lo, hi, err)
			}
			m.min, m.max = lo, hi
		}
	case 14:
		m.note("Wait")
		m.waits = append(m.waits, inBackground(p.Wait))
	case 15:
		m.end(arg)
	}
	m.rest()
}

// batch submits n tasks with one call, where its outcome is certain: not if it
// had to wait in between, or could drop what a free worker is about to take.
func (m *poolModel) batch(n int) {
	if !m.refusing && (n > m.roomLeft() || len(m.room) > 0) {
		switch {
		case m.policy == shoal.Block, m.policy == shoal.CallerRuns:
			return
		case m.policy == shoal.DropOldest && !m.paused && len(m.running) < m.max:
			return
		}
	}
	m.note("SubmitBatch of %d from %d", n, len(m.all))
	var tasks []func()
	var subs []*mSubmit
	for range n {
		t, f := m.newTask(1) // held: a batch of others makes room for itself, or not
		s := &mSubmit{t: t}
		m.all = append(m.all, s)
		tasks, subs = append(tasks, f), append(subs, s)
	}
	accepted, err := m.p.SubmitBatch(tasks)
	wantN, wantErr := 0, error(nil)
	for _, s := range subs {
		if wantErr == nil {
			m.submit(s, m.policy)
			wantErr = s.want
		}
		if wantErr == nil {
			wantN++
		} else {
			m.held = slices.DeleteFunc(m.held, func(t *mTask) bool { return t == s.t })
		}
		s.want, s.wait = nil, false
		s.done = nil
	}
	if accepted != wantN || err != wantErr {
		m.fatalf("SubmitBatch of %d = %d, %v; want %d, %v", n, accepted, err, wantN, wantErr)
	}
}

// cancelOne ends the context of some task.
func (m *poolModel) cancelOne(i int) {
	var able []*mSubmit
	for _, s := range m.all {
		if s.t.cancel != nil && !s.t.canceled {
			able = append(able, s)
		}
	}
	if len(able) == 0 {
		return
	}
	s := able[i%len(able)]
	m.note("cancel %d", s.t.id)
	s.t.cancel()
	s.t.canceled = true
	if i := slices.Index(m.room, s); i >= 0 {
		m.room = slices.Delete(m.room, i, i+1)
		s.wait, s.want = false, context.Canceled
	}
}

// release opens the gate of t, wherever it is.
func (m *poolModel) release(t *mTask) {
	is := func(o *mTask) bool { return o == t }
	close(t.gate)
	m.held = slices.DeleteFunc(m.held, is)
	t.held = false
	for _, where := range []*[]*mTask{&m.running, &m.outside} {
		if slices.ContainsFunc(*where, is) {
			*where = slices.DeleteFunc(*where, is)
			m.finish(t)
		}
	}
	for _, s := range m.all {
		if s.t == t && m.policy == shoal.CallerRuns {
			s.wait = false
		}
	}
}

// end shuts the pool down, one way or the other.
func (m *poolModel) end(arg byte) {
	if arg%4 != 0 && !m.refusing {
		return // most of the script should find an open pool
	}
	closing := arg&0x40 != 0
	m.note("end, closing=%t", closing)
	m.refusing, m.paused = true, false
	for _, s := range m.room {
		s.wait, s.want = false, shoal.ErrClosed
	}
	m.room = nil
	if closing {
		if !m.stopped {
			m.cut = m.cut || len(m.queue) > 0
			for _, t := range m.queue {
				m.drop(t)
			}
			m.queue = nil
		}
		m.stopped = true
		m.ends = append(m.ends, inBackground(func() {
			if err := m.p.Close(); err != nil {
				m.t.Errorf("Close = %v", err)
			}
		}))
		return
	}
	err := new(error)
	m.results = append(m.results, err)
	m.ends = append(m.ends, inBackground(func() { *err = m.p.Shutdown(context.Background()) }))
}

// rest waits until everybody is at rest and compares pool and model.
func (m *poolModel) rest() {
	synctest.Wait()
	m.settle()
	// A task that is held but was dropped, cancelled or refused has no part in
	// it any more.
	busy, outside := len(m.running), len(m.outside)
	quiet := busy == 0 && outside == 0 && len(m.queue) == 0
	s := m.p.Stats()
	want := m.count
	got := mCount{s.Submitted, s.Completed, s.Failed, s.Rejected, s.Dropped, s.Canceled, s.Spawned}
	if got != want {
		m.fatalf("counted %+v, want %+v", got, want)
	}
	if s.InFlight != len(m.queue)+busy+outside || s.Queued != min(len(m.queue), m.capacity) || s.Running != busy || m.p.Queued() != s.Queued {
		m.fatalf("in flight %d, queued %d, Queued() %d, running %d; want %d, %d, %d",
			s.InFlight, s.Queued, m.p.Queued(), s.Running, len(m.queue)+busy+outside, len(m.queue), busy)
	}
	over := m.refusing && quiet
	if !over && (s.MinWorkers != m.min || s.MaxWorkers != m.max) {
		m.fatalf("min %d, max %d, want %d, %d", s.MinWorkers, s.MaxWorkers, m.min, m.max)
	}
	if s.Workers < busy || s.Workers > max(m.max, busy) || !m.refusing && s.Workers < m.min || over && s.Workers != 0 {
		m.fatalf("%d workers, %d busy, min %d, max %d", s.Workers, busy, m.min, m.max)
	}
	state := shoal.Open
	switch {
	case over:
		state = shoal.Closed
	case m.refusing:
		state = shoal.Draining
	case m.paused:
		state = shoal.Paused
	}
	if s.State != state || m.p.State() != state || isClosed(m.p.Done()) != over {
		m.fatalf("state %v, done %t, want %v", s.State, isClosed(m.p.Done()), state)
	}
	m.mu.Lock()
	for id, n := range m.ran {
		if n != 1 {
			m.fatalf("task %d ran %d times", id, n)
		}
	}
	if !slices.Equal(slices.Sorted(maps.Keys(m.ran)), slices.Sorted(maps.Keys(m.started))) {
		m.fatalf("tasks %v have started, want %v", slices.Sorted(maps.Keys(m.ran)), slices.Sorted(maps.Keys(m.started)))
	}
	m.mu.Unlock()
	for _, s := range m.all {
		if s.done == nil {
			continue
		}
		if back := isClosed(s.done); back == s.wait {
			m.fatalf("the submission of %d has returned: %t, want %t", s.t.id, back, !s.wait)
		} else if back && s.err != s.want {
			m.fatalf("the submission of %d returned %v, want %v", s.t.id, s.err, s.want)
		}
	}
	m.waits = slices.DeleteFunc(m.waits, func(w <-chan struct{}) bool {
		returned := isClosed(w)
		if returned != quiet && !(returned && m.wasQuiet) {
			m.fatalf("Wait has returned: %t, the pool is quiet: %t", !quiet, quiet)
		}
		return returned
	})
	for _, e := range m.ends {
		if isClosed(e) != over {
			m.fatalf("Shutdown or Close has returned: %t, the pool is done: %t", !over, over)
		}
	}
	if over {
		for _, err := range m.results {
			if (*err != nil) != m.cut {
				m.fatalf("Shutdown = %v, tasks were dropped: %t", *err, m.cut)
			}
		}
	}
}

// playScript runs a script. It must be called outside of bubbles.
func playScript(t *testing.T, script []byte) {
	if len(script) < 4 {
		return
	}
	inBubble(t, func(t *testing.T) {
		m := &poolModel{
			t: t, started: map[int]bool{}, ran: map[int]int{},
			min: int(script[0]>>4) % 3, max: 3, capacity: []int{0, 1, 2, 5, 100}[script[1]%5],
			policy: allPolicies[int(script[2])%len(allPolicies)],
		}
		sizers := []shoal.Sizer{shoal.Auto(), shoal.Eager(), shoal.Rated(3), sizerFunc(no)}
		m.max = max(1, int(script[0]%5), m.min)
		opts := []shoal.Option{
			shoal.WithMinWorkers(m.min), shoal.WithMaxWorkers(m.max), shoal.WithQueueCapacity(m.capacity), shoal.WithFullPolicy(m.policy),
			shoal.WithSizing(sizers[script[3]&3]), shoal.WithSpin([]int{0, 1, 30}[script[3]>>2%3]),
			shoal.WithTiming(shoal.Timing(script[3] >> 4 % 3)), shoal.WithIdleTimeout(time.Hour),
			shoal.WithPanicHandler(func(*shoal.PanicError) {}),
		}
		if script[3]&0x80 != 0 {
			opts = append(opts, shoal.WithMaxTasksPerWorker(2))
		}
		m.p = openPool(t, opts...)
		m.note("min %d, max %d, capacity %d, %v, %#x", m.min, m.max, m.capacity, m.policy, script[3])
		m.rest()
		ops := script[4:min(len(script), 4+2*200)]
		for ; len(ops) >= 2 && !t.Failed(); ops = ops[2:] {
			m.step(ops[0], ops[1])
		}
		if !t.Failed() { // whatever came of it, it ends well
			for len(m.held) > 0 {
				m.release(m.held[0])
				m.rest()
			}
			m.step(12, 0)
			m.step(15, 0)
		}
		for _, t := range m.held { // for the goroutines' sake
			close(t.gate)
		}
		m.p.Close()
	})
}

// scripts are the seed corpus: what each rule of the model needs to be seen.
func scripts() map[string][]byte {
	const (
		submit, try, ctx, batch, cancel, release = 0, 3, 4, 6, 7, 8
		pause, resume, resize, wait, end         = 11, 12, 13, 14, 15
		free, held, faulty                       = 0, 1, 6
		graceful, immediate                      = 0, 0x40
	)
	rep := func(n int, ops ...byte) []byte { return slices.Repeat(ops, n) }
	s := map[string][]byte{
		"one":             {1, 0, 0, 0, submit, free},
		"hand-off":        {2, 0, 0, 1, submit, held, submit, held, submit, free, submit, free, release, 0, release, 0},
		"panics":          {1, 4, 0, 1, submit, faulty, submit, faulty | held, submit, faulty, release, 0},
		"pause":           {2, 3, 0, 0, pause, 0, submit, free, submit, held, wait, 0, submit, free, resume, 0, release, 0},
		"pause full":      {1, 1, 0, 0, pause, 0, submit, free, submit, free, try, free, wait, 0, submit, held, resume, 0, release, 0},
		"resize up":       {1, 1, 0, 0, submit, held, submit, held, submit, held, submit, held, wait, 0, resize, 3, resize, 0x14, release, 1},
		"resize down":     {4, 4, 0, 1, submit, held, submit, held, submit, held, submit, held, submit, free, resize, 1, release, 0, release, 0, release, 0},
		"resize wrong":    {1, 0, 0, 0, resize, 0, resize, 0x31, resize, 0x33},
		"cancel queued":   {1, 3, 0, 0, submit, held, ctx, free, ctx, held, cancel, 0, release, 0, cancel, 0},
		"cancel waiting":  {1, 1, 0, 0, submit, held, submit, free, ctx, free, submit, free, ctx, free, cancel, 0, cancel, 0, release, 0},
		"batch":           {2, 3, 1, 0, batch, 7, batch, 7, release, 0, batch, 3},
		"batch drops":     {1, 2, 4, 0, submit, held, batch, 7, release, 0, release, 0, release, 0},
		"batch spawns":    {1, 2, 2, 0, submit, held, batch, 7, wait, 0},
		"shutdown":        {1, 3, 0, 0, submit, held, submit, free, submit, held, end, graceful, submit, free, release, 0, wait, 0, release, 0},
		"close":           {1, 3, 0, 0, submit, held, submit, free, submit, held, end, immediate, submit, free, resize, 2, release, 0},
		"graceful, then":  {1, 1, 0, 0, submit, held, submit, held, submit, held, end, graceful, end, immediate, end, graceful, release, 0},
		"close paused":    {1, 3, 0, 0, pause, 0, submit, held, submit, free, end, immediate},
		"shutdown paused": {1, 3, 0, 0, pause, 0, submit, held, submit, free, end, graceful, pause, 0, release, 0},
		"minimum":         {0x13, 3, 0, 0x80, resize, 0x24, submit, held, resize, 0x01, submit, free, resize, 0x33},
	}
	for i, policy := range allPolicies {
		all := []byte{2, 2, byte(i), 1}
		all = append(all, rep(5, submit, held)...)
		all = append(all, rep(3, submit, free)...)
		all = append(all, rep(3, ctx, held)...)
		all = append(all, wait, 0, cancel, 1, try, free, pause, 0)
		all = append(all, rep(3, submit, free)...)
		all = append(all, rep(4, release, 0)...)
		all = append(all, batch, 3, resume, 0, batch, 2, resize, 4, end, byte(i%2)*immediate)
		s["all of "+policy.String()] = append(all, rep(12, release, 0)...)
	}
	return s
}

func FuzzPool(f *testing.F) {
	for _, s := range scripts() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script []byte) { playScript(t, script) })
}

func TestPoolFollowsItsModelInRandomScripts(t *testing.T) {
	for seed := range testpool.Reps(1500, 200, 100) {
		rng := rand.New(rand.NewPCG(uint64(seed), 11))
		script := make([]byte, 4+2*(10+rng.IntN(90)))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		playScript(t, script)
		if t.Failed() {
			t.Fatalf("script %d", seed)
		}
	}
}

// ----- options -----

// A choice is an option, and whether it is valid.
type choice struct {
	opt  shoal.Option
	name string // what the error must contain
	ok   bool
}

var interesting = []int{0, 1, 2, 3, 5, 64, -1, -7, 1 << 20, shoal.MaxWorkers, shoal.MaxWorkers + 1, math.MaxInt, math.MinInt, 1 << 30}

func choices(kind byte, v int) choice {
	in := func(lo, hi int) bool { return lo <= v && v <= hi }
	switch kind % 12 {
	case 0:
		return choice{shoal.WithMaxWorkers(v), fmt.Sprintf("WithMaxWorkers(%d)", v), in(1, shoal.MaxWorkers)}
	case 1:
		return choice{shoal.WithQueueCapacity(v), fmt.Sprintf("WithQueueCapacity(%d)", v), v == shoal.Unbounded || v >= 0 && uint64(v) <= 1<<36}
	case 2:
		return choice{shoal.WithFullPolicy(shoal.FullPolicy(v)), fmt.Sprintf("WithFullPolicy(%d)", v), in(0, 4)}
	case 3:
		return choice{shoal.WithIdleTimeout(time.Duration(v)), "WithIdleTimeout(", v >= 0}
	case 4:
		return choice{shoal.WithMaxTasksPerWorker(v), fmt.Sprintf("WithMaxTasksPerWorker(%d)", v), v >= 0}
	case 5:
		return choice{shoal.WithSpin(v), fmt.Sprintf("WithSpin(%d)", v), in(0, 1<<20)}
	case 6:
		return choice{shoal.WithTiming(shoal.Timing(v)), fmt.Sprintf("WithTiming(%d)", v), in(0, 2)}
	case 7:
		return choice{shoal.WithSizing(shoal.Rated(v)), fmt.Sprintf("Rated(%d)", v), v >= 1}
	case 8:
		if v < 0 {
			return choice{shoal.WithSizing(nil), "WithSizing(nil)", false}
		}
		return choice{shoal.WithSizing(shoal.Auto()), "", true}
	case 9:
		if v < 0 {
			return choice{shoal.WithContext(noContext), "WithContext(nil)", false}
		}
		return choice{shoal.WithContext(context.Background()), "", true}
	case 10:
		return choice{shoal.WithName(fmt.Sprint(v)), "", true}
	default:
		return choice{nil, "", true}
	}
}

// playOptions makes a pool of options, of which the last of a kind counts.
func playOptions(t *testing.T, script []byte) {
	last := map[byte]choice{}
	var opts []shoal.Option
	maxWorkers, minWorkers := runtime.GOMAXPROCS(0), 0
	for ; len(script) >= 2; script = script[2:] {
		kind, v := script[0]%13, interesting[int(script[1])%len(interesting)]
		if kind == 12 {
			minWorkers = v
			opts = append(opts, shoal.WithMinWorkers(v))
			continue
		}
		c := choices(kind, v)
		opts = append(opts, c.opt)
		if kind == 8 { // the same option as 7
			kind = 7
		}
		last[kind] = c
		if kind == 0 {
			maxWorkers = v
		}
	}
	ok := true
	var names []string
	for _, c := range last {
		if !c.ok {
			ok = false
			names = append(names, c.name)
		}
	}
	badMax := maxWorkers < 1 || maxWorkers > shoal.MaxWorkers
	if minWorkers < 0 || !badMax && minWorkers > maxWorkers {
		ok = false
		names = append(names, fmt.Sprintf("WithMinWorkers(%d)", minWorkers))
	}
	if ok && minWorkers > 64 {
		return // valid, but so many are not worth the time
	}
	p, err := shoal.New(opts...)
	if ok != (err == nil) || (p == nil) != (err != nil) {
		t.Fatalf("New = %v, %v; valid: %t", p, err, ok)
	}
	if err != nil {
		if !errors.Is(err, shoal.ErrConfig) {
			t.Errorf("%v is not ErrConfig", err)
		}
		for _, name := range names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("the error does not name %s: %v", name, err)
			}
		}
		if n := strings.Count(err.Error(), shoal.ErrConfig.Error()); n != len(names) {
			t.Errorf("the error names %d problems, want %d: %v", n, len(names), err)
		}
		return
	}
	defer p.Close()
	if s := p.Stats(); s.MaxWorkers != maxWorkers || s.MinWorkers != minWorkers || s.Workers != minWorkers || s.State != shoal.Open {
		t.Errorf("min %d, max %d, %d workers, %v; want %d, %d", s.MinWorkers, s.MaxWorkers, s.Workers, s.State, minWorkers, maxWorkers)
	}
	if err := p.SubmitWait(context.Background(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("SubmitWait = %v", err)
	}
}

func FuzzOptions(f *testing.F) {
	f.Add([]byte{})
	for kind := range byte(13) {
		for v := range byte(len(interesting)) {
			f.Add([]byte{kind, v})
		}
	}
	f.Add([]byte{0, 6, 1, 6, 2, 6, 3, 6, 4, 6, 5, 6, 6, 6, 7, 6, 9, 6, 12, 6}) // all at once
	f.Add([]byte{12, 2, 0, 1})                                                 // more than the maximum
	f.Add([]byte{0, 6, 0, 3})                                                  // the last one counts
	f.Fuzz(playOptions)
}

// noContext is what a caller with a nil context passes.
var noContext context.Context
