package shoalhttp

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/shoal-go/shoal"
)

// Stacks are folded as pprof does: those that are at the same places are one, with a count.

// maxFolded is how many tasks are folded, and maxCrew how many workers of those are named.
const maxFolded, maxCrew = 10_000, 10

// fold folds the stacks of tasks, of which the oldest is the first.
func fold(tasks []shoal.RunningTask) []StackGroup {
	groups := []StackGroup{}
	at := make(map[string]int) // in groups
	for _, t := range tasks {
		key := places(t.Stack)
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			own, place := ownFrame(t.Stack)
			groups = append(groups, StackGroup{Age: t.Age.Seconds(), Func: own, Place: place, Stack: t.Stack})
		}
		groups[i].Count++
		if len(groups[i].Workers) < maxCrew {
			groups[i].Workers = append(groups[i].Workers, t.Worker)
		}
	}
	slices.SortStableFunc(groups, func(a, b StackGroup) int { return cmp.Compare(b.Age, a.Age) })
	return groups[:min(len(groups), maxStacks)]
}

// frames calls f with each function of a stack and its place, the innermost first, as long as it
// returns true. Each has two lines, below a heading.
func frames(stack string, f func(function, place string) bool) {
	lines := strings.Split(stack, "\n")
	for i := 1; i+1 < len(lines); i += 2 {
		function, place := lines[i], strings.TrimSpace(lines[i+1])
		if end := strings.LastIndexByte(function, '('); end > 0 {
			function = function[:end] // without its arguments
		}
		place, _, _ = strings.Cut(place, " +0x")
		if !f(function, place) {
			return
		}
	}
}

// places is what is equal if two goroutines are at the same place.
func places(stack string) string {
	var b strings.Builder
	frames(stack, func(function, place string) bool {
		b.WriteString(function + "\n" + place + "\n")
		return true
	})
	return b.String()
}

// ownFrame is the innermost function of the program's own code: of its main module. If there is
// none it is that of another module, and else that of the standard library.
func ownFrame(stack string) (function, place string) {
	best := 3
	frames(stack, func(f, at string) bool {
		if foreign := foreignness(f, mainModule()); foreign < best {
			best, function, place = foreign, f, at
		}
		return best > 0
	})
	return function, place
}

// foreignness is 0 for a function of the main module, 1 for one of another, 2 for one of Go's own.
func foreignness(function, module string) int {
	slash := strings.LastIndexByte(function, '/') + 1
	last, _, _ := strings.Cut(function[slash:], ".")
	pkg := strings.TrimSuffix(function[:slash]+strings.ReplaceAll(last, "%2e", "."), "_test")
	first, _, _ := strings.Cut(pkg, "/")
	switch {
	case pkg == "main", module != "" && (pkg == module || strings.HasPrefix(pkg, module+"/")):
		return 0
	case strings.Contains(first, "."):
		return 1
	}
	return 2
}

var mainModule = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path
	}
	return ""
})
