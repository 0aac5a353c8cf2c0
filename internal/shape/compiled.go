package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// mustInline is what the compiler must inline, by package: all of it is on the path of a task.
var mustInline = map[string][]string{
	"internal/kernel": {
		"ticketOf", "numOf", "(*Worker).ran", "(*Worker).begin", "(*Worker).settle", "(*Worker).stop", "(*Worker).cease",
		"(*Crew).enter", "(*Crew).touch", "(*Lane).quietAfter", "(*Record).Take", "recordOf",
		"(*account).freeCapacity", "(*account).workersIn", "(*line).backlog", "(*line).waits",
	},
	"internal/grow":  {"(*Seat).Ended", "(*Seat).Stale", "(*Seat).Done"},
	"internal/queue": {"Func", "Item.IsRecord", "Item.Func", "(*Cell).Put", "(*Segment).Holds", "(*Segment).Cell", "(*Segment).Stamp", "(*Segment).Middle"},
}

// onPath are the functions on the path of Submit, and of a worker from task to task. In each the
// calls and the locked instructions are counted, those of seldom branches too.
var onPath = []struct{ pkg, name string }{
	{"internal/kernel", "(*Lane).Submit"},
	{"internal/kernel", "(*line).offer"},
	{"internal/kernel", "(*line).put"},
	{"internal/kernel", "(*Crew).look"},
	{"internal/kernel", "(*Worker).loop"},
	{"internal/kernel", "(*Worker).hand"},
	{"internal/kernel", "(*Worker).take"}, {"internal/kernel", "(*Worker).takePlain"},
	{"internal/kernel", "(*Worker).fetch"},
	{"internal/kernel", "(*line).fetch"},
	{"internal/kernel", "(*Worker).finishAlone"},
	{"internal/queue", "(*Segment).Take"},
	{".", "(*Pool).Submit"},
}

// inlining says what of mustInline is not inlined.
func inlining(root string) (faults []string, err error) {
	for _, pkg := range []string{"internal/kernel", "internal/grow", "internal/queue"} {
		cmd := exec.Command("go", "build", "-gcflags=-m", "./"+pkg)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("go build -gcflags=-m ./%s: %w\n%s", pkg, err, out)
		}
		can := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			if _, name, ok := strings.Cut(line, ": can inline "); ok {
				can[strings.TrimSpace(name)] = true
			}
		}
		for _, name := range mustInline[pkg] {
			if !can[name] {
				faults = append(faults, fmt.Sprintf("%s of %s is not inlined", name, pkg))
			}
		}
	}
	return faults, nil
}

var (
	locked = regexp.MustCompile(`\tLOCK |\tXCHG[BLQ] .*\(`)
	callOf = regexp.MustCompile(`\tCALL .*`)
	// uncounted are the calls that are no part of a path: for a larger stack, for the collector, or for a panic.
	uncounted = regexp.MustCompile(`runtime\.(morestack|gcWriteBarrier|panic)`)
	// The methods of atomics are instructions, where sync/atomic is imported: see word.go. Those that
	// write a pointer are calls, as the collector needs to know.
	atomics = regexp.MustCompile(`R_CALL:sync/atomic\.\(\*(Int64|Uint64|Bool|Pointer\[[^\n]*\]\)\.Load)[^\n]*`)
)

// instructions counts calls and locked instructions in the functions on the path, as go build
// makes them for amd64. Faults are calls of what should be an instruction.
func instructions(root string) (figures []figure, faults []string, err error) {
	dir, err := os.MkdirTemp("", "shape-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	for _, pkg := range []string{"internal/kernel", "internal/grow", "internal/queue", "."} {
		archive := filepath.Join(dir, "pkg.a")
		cmd := exec.Command("go", "build", "-o", archive, "./"+pkg)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOARCH=amd64", "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("go build ./%s: %w\n%s", pkg, err, out)
		}
		out, err := exec.Command("go", "tool", "objdump", archive).Output()
		if err != nil {
			return nil, nil, fmt.Errorf("go tool objdump of %s: %w", pkg, err)
		}
		bodies := map[string]string{}
		for body := range strings.SplitSeq(string(out), "\nTEXT ") {
			body = strings.TrimPrefix(body, "TEXT ")
			symbol, rest, _ := strings.Cut(body, "(SB)")
			bodies[symbol[strings.LastIndex(symbol, "/")+1:]] = rest
			if a := atomics.FindString(rest); a != "" && pkg != "." {
				faults = append(faults, symbol+" has "+a+", which should be an instruction")
			}
		}
		for _, f := range onPath {
			if f.pkg != pkg {
				continue
			}
			name := filepath.Base(pkg) + "." + f.name
			if pkg == "." {
				name = "shoal." + f.name
			}
			body, ok := bodies[name]
			if !ok {
				faults = append(faults, "there is no "+name)
				continue
			}
			calls := 0
			for _, c := range callOf.FindAllString(body, -1) {
				if !uncounted.MatchString(c) {
					calls++
				}
			}
			figures = append(figures, figure{name + ": calls", calls},
				figure{name + ": locked instructions", len(locked.FindAllString(body, -1))})
		}
	}
	return figures, faults, nil
}
