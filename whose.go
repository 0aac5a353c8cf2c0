package shoal

import (
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
// There are as many call instructions as cases in callAs. While more pools
// than that live at once, the later ones share the default, and the answer for
// them is no. The answer is also no for goroutines that a task has started.

const sites = 32

// siteOf is the return address of each case of callAs; learnt at first use.
var (
	siteOf    [sites]uintptr
	learnOnce sync.Once
)

// sitesTaken has a bit for every site that a pool uses.
var sitesTaken sy.Uint64

// takeSite returns a site for a new pool, 0 if all are taken.
func takeSite() uint8 {
	for {
		taken := sitesTaken.Load()
		for s := uint8(1); s < sites; s++ {
			if taken&(1<<s) == 0 {
				if sitesTaken.CompareAndSwap(taken, taken|1<<s) {
					return s
				}
				break
			}
			if s == sites-1 {
				return 0
			}
		}
	}
}

func freeSite(s uint8) {
	if s != 0 {
		sitesTaken.And(^(uint64(1) << s))
	}
}

// onOwnWorker reports whether the calling goroutine runs a task of p.
func (p *Pool) onOwnWorker() bool {
	if p.site == 0 {
		return false
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
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		if slices.Contains(pcs[:n], siteOf[p.site]) {
			return true
		}
		if n < len(pcs) {
			return false
		}
	}
}

// callAs calls f, from the call instruction of the site.
//
//go:noinline
func callAs(site uint8, f func()) {
	switch site {
	case 1:
		f()
	case 2:
		f()
	case 3:
		f()
	case 4:
		f()
	case 5:
		f()
	case 6:
		f()
	case 7:
		f()
	case 8:
		f()
	case 9:
		f()
	case 10:
		f()
	case 11:
		f()
	case 12:
		f()
	case 13:
		f()
	case 14:
		f()
	case 15:
		f()
	case 16:
		f()
	case 17:
		f()
	case 18:
		f()
	case 19:
		f()
	case 20:
		f()
	case 21:
		f()
	case 22:
		f()
	case 23:
		f()
	case 24:
		f()
	case 25:
		f()
	case 26:
		f()
	case 27:
		f()
	case 28:
		f()
	case 29:
		f()
	case 30:
		f()
	case 31:
		f()
	default:
		f()
	}
}
