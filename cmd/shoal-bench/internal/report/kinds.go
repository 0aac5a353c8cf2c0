package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
)

// kind is a kind of work that somebody may have, and the rows that tell about
// it.
type kind struct {
	ID, Title, About string
	rows             func(race.Row) bool
}

func family(names ...string) func(race.Row) bool {
	return func(r race.Row) bool { return slices.Contains(names, r.Family()) }
}

var kinds = []kind{
	{"tiny", "Many tiny tasks", "Each task takes less than it takes to hand it over, so the pool is the cost.",
		func(r race.Row) bool {
			return slices.Contains([]string{"Rand", "Submitters"}, r.Family()) ||
				r.Family() == "Flock" && !strings.Contains(r.Name, "mixed") && !strings.Contains(r.Name, "burst")
		}},
	{"waiting", "Tasks that wait for something", "Network, disk, a database: most of the time a task only waits, so many run at once.",
		func(r race.Row) bool { return r.Family() == "Sleep" || strings.Contains(r.Name, "mixed") }},
	{"bursts", "Bursts with pauses between", "Work comes in handfuls; in between the pool has nothing to do.",
		func(r race.Row) bool { return r.Family() == "Burst" || strings.Contains(r.Name, "task=burst") }},
	{"full", "A batch job", "A large number of short tasks at once, and then the end is awaited.", family("Saturated", "Limit10k")},
	{"one", "One task, and its answer", "A task is submitted and waited for, or a pool is made for one task.", family("SubmitWait", "Startup")},
	{"recursive", "Tasks that submit tasks", "A crawler, a tree walk, divide and conquer.", family("FanOut")},
	{"nested", "Tasks that wait for tasks", "Divide and conquer with groups, and parallel loops.", family("Nested", "Range")},
	{"steady", "Steady traffic", "Tasks come when they come, as in a server. How long do they wait to be started?", family("Latency")},
	{"mixed", "Tasks of all kinds", "Some compute, some wait; or the rest of the program computes.", family("Mixed")},
	{"producers", "Producers that never pause", "Does the pool keep up, and what does it cost in memory?", family("Producers")},
	{"many", "Many pools", "A pool for each part of a program, or for each tenant.", family("Pools")},
	{"neighbour", "Manners", "The pool is full. How does the rest of the program fare?", family("Neighbour")},
	{"scale", "From one task to ten million", "How the cost of a task grows with their number.", family("Scale")},
	{"memory", "Memory", "What a waiting task and an idle worker hold.", family("Memory")},
}

// answer says whether shoal is faster for a kind of work.
type answer struct {
	Word, Class, Text string
}

func answerFor(standings []race.Standing) answer {
	var won, level, lost int
	product, n := 0.0, 0
	var worst, best race.Standing
	for _, s := range standings {
		switch s.Verdict() {
		case race.Win:
			won++
			if best.Row.Name == "" || s.Ratio < best.Ratio {
				best = s
			}
		case race.Level:
			level++
		case race.Loss:
			lost++
			if worst.Row.Name == "" || s.Ratio > worst.Ratio {
				worst = s
			}
		default:
			continue
		}
		product += math.Log(s.Ratio)
		n++
	}
	if n == 0 {
		return answer{"Not measured", "none", "Too little was measured to say."}
	}
	mean := math.Exp(product / float64(n))
	text := fmt.Sprintf("%d of %d rows won", won, n)
	if won > 0 && won < n {
		text += fmt.Sprintf(" (most: %s, %.2f × %s)", best.Row.Name, best.Ratio, best.Peer)
	}
	if level > 0 {
		text += fmt.Sprintf(", %d level", level)
	}
	if lost > 0 {
		text += fmt.Sprintf(", %d lost (most: %s, %.2f × %s)", lost, worst.Row.Name, worst.Ratio, worst.Peer)
	}
	if mean < 1 {
		text += fmt.Sprintf(". On average it takes %.2f of what the best other takes.", mean)
	} else {
		text += fmt.Sprintf(". On average it takes %.2f times what the best other takes.", mean)
	}
	switch {
	case lost == 0 && won > 0 && won >= level:
		return answer{"Yes", "win", text}
	case won == 0 && lost > level:
		return answer{"No", "loss", text}
	case won > 0 && lost > 0: // one average of both would say nothing
		return answer{"It depends", "level", text}
	default:
		return answer{"About the same", "level", text}
	}
}
