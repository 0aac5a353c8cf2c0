package shoal

import (
	"context"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/shoal-go/shoal/internal/sy"
)

// This file answers one question: does the calling goroutine run a task of
// this pool? A context tells (inTask), but Wait, Close and Submit have none,
// and Go has no goroutine-local storage. What a goroutine does have is its
// stack. So every pool calls its tasks from a call instruction of its own: the
// return address of that instruction is on the stack of whoever asks from
// inside a task. It costs a task one indexed jump. The question itself walks
// the stack, which takes microseconds, and is asked only by calls that are
// about to park.
//
// There are as many call instructions as cases in callAs (sites.go). While
// more pools than that live at once, the later ones share the default, and the
// answer for them is no. The answer is also no for goroutines that a task has
// started.

// siteOf is the return address of each case of callAs; learnt at first use.
var (
	siteOf    [sites]uintptr
	learnOnce sync.Once
)

// sitesTaken has a bit for every site that a pool uses. Site 0 is the default.
var sitesTaken [sites / 64]sy.Uint64

// takeSite returns a site for a new pool, 0 if all are taken.
func takeSite() uint8 {
	for i := range sitesTaken {
		for {
			taken := sitesTaken[i].Load()
			if i == 0 {
				taken |= 1
			}
			bit := bits.TrailingZeros64(^taken)
			if bit == 64 {
				break
			}
			if was := sitesTaken[i].Or(1 << bit); was&(1<<bit) == 0 {
				return uint8(64*i + bit)
			}
		}
	}
	return 0
}

// A siteLease is a site of a pool, which is given back once.
type siteLease struct {
	site uint8
	once sync.Once
}

func (l *siteLease) free() {
	l.once.Do(func() {
		if s := l.site; s != 0 {
			sitesTaken[s/64].And(^(uint64(1) << (s % 64)))
		}
	})
}

// lease takes a site for p, until p ends, or is collected where nobody ends it.
func (p *Pool) lease() {
	p.leased = &siteLease{site: takeSite()}
	p.site = p.leased.site
	if sy.Shorter == 0 { // in models only what they start may run
		runtime.AddCleanup(p, (*siteLease).free, p.leased)
	}
}

// onOwnWorker reports whether the calling goroutine runs a task of p. When the end of p is
// decided none does, and its site may be another pool's.
func (p *Pool) onOwnWorker() bool {
	if p.depth() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ending
}

// maxNesting is how many tasks of a pool may run inside each other because
// there was no room.
const maxNesting = 64

// nesting is how many tasks of p the calling goroutine is in, one inside the
// other, as far as its stack and ctx tell.
func (p *Pool) nesting(ctx context.Context) int {
	switch n := p.depth(); {
	case n > 0:
		return n
	case p.inTask(ctx):
		return 1
	case p.up != nil && p.root().nesting(ctx) > 0:
		// A task of another pool of the family. It must not wait for p, but has no
		// worker of p's either.
		return maxNesting + 1
	}
	return 0
}

// depth is how many calls from p's site are on the stack.
func (p *Pool) depth() (n int) {
	if p.site == 0 {
		return 0
	}
	learnOnce.Do(func() {
		for s := range siteOf {
			callAs(uint8(s), func() {
				var pc [1]uintptr
				runtime.Callers(2, pc[:])
				siteOf[s] = pc[0]
			})
		}
		if slices.Contains(siteOf[1:], siteOf[0]) {
			panic("shoal: the compiler has merged the call sites of callAs")
		}
	})
	// A submitter that waits is often on a new stack of 2 KB. Room for few frames lets it
	// stay there: to move it costs more than the walk, and doubles its memory.
	var few [16]uintptr
	got := runtime.Callers(2, few[:])
	n = p.callsIn(few[:got])
	if got == len(few) {
		n += p.depthFrom(2 + 1 + len(few))
	}
	return n
}

// depthFrom is depth without the first frames, skip of them as runtime.Callers counts
// them here. It is not inlined: its own frame is large.
//
//go:noinline
func (p *Pool) depthFrom(skip int) int {
	pcs := make([]uintptr, 128)
	for {
		got := runtime.Callers(skip, pcs)
		if got < len(pcs) {
			return p.callsIn(pcs[:got])
		}
		pcs = make([]uintptr, 8*len(pcs))
	}
}

// callsIn is how many of pcs are calls of p's tasks.
func (p *Pool) callsIn(pcs []uintptr) (n int) {
	for _, pc := range pcs {
		if pc == siteOf[p.site] {
			n++
		}
	}
	return n
}
