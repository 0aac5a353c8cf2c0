// Command shape counts what makes the code easy or hard to enter, and quick or slow, and holds it:
// lines, fields and entries; how many functions one must read to answer a question about the
// kernel; which way its calls go, who writes its fields, and that each entering of its lock has
// one leaving; what is inlined, and the calls and locked instructions on the path of a task. Run
// it in the root of the module:
//
//	go run ./internal/shape
//
// Nothing may be more than ceilings.txt says. With -lower the command writes what has become less
// there; with -set what has become more too, for which the commit has a reason.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

func main() {
	lower := flag.Bool("lower", false, "lower the ceilings to what was counted")
	set := flag.Bool("set", false, "set the ceilings to what was counted, also where that is more")
	flag.Parse()
	if err := run(*lower || *set, *set); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

const ceilingsFile = "internal/shape/ceilings.txt"

func run(lower, raise bool) error {
	c, err := load("internal/kernel", nil)
	if err != nil {
		return err
	}
	faults := slices.Concat(c.directions(), c.ownership(), c.pairs())
	figures, err := counts(".", c)
	if err != nil {
		return err
	}
	more, err := inlining(".")
	if err != nil {
		return err
	}
	faults = append(faults, more...)
	path, more, err := instructions(".")
	if err != nil {
		return err
	}
	faults = append(faults, more...)
	figures = append(figures, path...)

	text, err := os.ReadFile(ceilingsFile)
	if err != nil {
		return err
	}
	ceilings, err := parseCeilings(string(text))
	if err != nil {
		return err
	}
	if raise {
		for _, f := range figures {
			if c := ceilings[f.name]; c != nil {
				c.most = max(c.most, f.n)
			}
		}
	}
	faults = append(faults, compare(figures, ceilings, lower)...)
	print(figures, ceilings)
	if lower {
		if err := os.WriteFile(ceilingsFile, []byte(formatCeilings(string(text), ceilings)), 0o666); err != nil {
			return err
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%s", strings.Join(faults, "\n"))
	}
	return nil
}

// A ceiling is the most that a figure may be, and what it is to become at most; goal 0: it may stay.
type ceiling struct {
	most, goal int
	used       bool // something was counted
}

// parseCeilings reads lines of "most goal name". What begins with # says why.
func parseCeilings(text string) (map[string]*ceiling, error) {
	ceilings := map[string]*ceiling{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s: %q is no ceiling", ceilingsFile, line)
		}
		most, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", ceilingsFile, line, err)
		}
		goal := 0
		if fields[1] != "-" {
			if goal, err = strconv.Atoi(fields[1]); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", ceilingsFile, line, err)
			}
		}
		ceilings[strings.Join(fields[2:], " ")] = &ceiling{most: most, goal: goal}
	}
	return ceilings, nil
}

// compare says which figures are above their ceilings, or have none. If lower, those that are
// below lower theirs.
func compare(figures []figure, ceilings map[string]*ceiling, lower bool) (faults []string) {
	for _, f := range figures {
		c := ceilings[f.name]
		switch {
		case c == nil:
			faults = append(faults, fmt.Sprintf("%s: %d, and there is no ceiling", f.name, f.n))
		case f.n > c.most:
			faults = append(faults, fmt.Sprintf("%s: %d, and %d are the most", f.name, f.n, c.most))
		case lower:
			c.most = max(f.n, c.goal)
		}
		if c != nil {
			c.used = true
		}
	}
	for name, c := range ceilings {
		if !c.used && !lower {
			faults = append(faults, name+": there is a ceiling, and nothing was counted")
		}
	}
	return faults
}

// formatCeilings is text with the numbers of ceilings.
func formatCeilings(text string, ceilings map[string]*ceiling) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) >= 3 && line[0] != '#' {
			name := strings.Join(fields[2:], " ")
			if !ceilings[name].used {
				continue
			}
			line = fmt.Sprintf("%5d %5s  %s\n", ceilings[name].most, fields[1], name)
		}
		b.WriteString(line)
	}
	return b.String()
}

func print(figures []figure, ceilings map[string]*ceiling) {
	fmt.Println("counted  ceiling  goal")
	for _, f := range figures {
		most, goal := "-", ""
		if c := ceilings[f.name]; c != nil {
			most = strconv.Itoa(c.most)
			if c.goal > 0 {
				goal = strconv.Itoa(c.goal)
				if f.n > c.goal {
					goal += "!"
				}
			}
		}
		fmt.Printf("%7d  %7s  %5s  %s\n", f.n, most, goal, f.name)
	}
}
