package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A command is one that a page tells the reader to type.
type command struct {
	file string
	line int
	text string
}

var (
	isCommand = regexp.MustCompile(`^(go (run|test|get|tool|build|vet|install|mod|work) \S|bash \S|make [a-z]|git \S|curl \S|cd \S|ls \S|benchstat \S|scripts/\S|shoal [a-z]+ -)`)
	comment   = regexp.MustCompile(`\s+# .*$`)
	anySpan   = regexp.MustCompile("`([^`]+)`")
)

// commands are the commands of a page, in its blocks and in its sentences.
func (p *page) commands() (found []command) {
	add := func(n int, text string) {
		text = strings.TrimPrefix(comment.ReplaceAllString(strings.TrimSpace(text), ""), "$ ")
		if isCommand.MatchString(text) {
			found = append(found, command{p.file, n, text})
		}
	}
	for _, b := range p.blocks {
		if slices.Contains([]string{"", "sh", "bash", "console"}, b.lang) {
			for i, l := range b.lines {
				add(b.line+i, l)
			}
		}
	}
	var text strings.Builder // of a paragraph: a span may go over the end of a line
	first := 0
	flush := func() {
		for _, m := range anySpan.FindAllStringSubmatch(text.String(), -1) {
			add(first, strings.Join(strings.Fields(m[1]), " "))
		}
		text.Reset()
	}
	for _, l := range p.prose {
		if strings.TrimSpace(l.text) == "" || strings.HasPrefix(l.text, "|") {
			flush()
		}
		if text.Len() == 0 {
			first = l.n
		}
		text.WriteString(l.text + "\n")
	}
	flush()
	return found
}

// A proof says how it is known that a command works.
type proof struct {
	command string
	kind    string // run: this tool runs what; long: it does so if asked; by: what is a file, and a text in it that does
	what    string
}

// readProofs reads the list of commands: each at the beginning of a line, and
// below it, indented, its proof.
func readProofs(text string) (proofs []proof, err error) {
	for n, l := range strings.Split(text, "\n") {
		switch trimmed := strings.TrimSpace(l); {
		case trimmed == "" || strings.HasPrefix(l, "#"):
		case !strings.HasPrefix(l, "\t"):
			proofs = append(proofs, proof{command: trimmed})
		default:
			kind, what, ok := strings.Cut(trimmed, ": ")
			if !ok || !slices.Contains([]string{"run", "long", "by"}, kind) || len(proofs) == 0 || proofs[len(proofs)-1].kind != "" {
				return nil, fmt.Errorf("commands.txt:%d: want a command, then one line that begins with run, long or by", n+1)
			}
			p := &proofs[len(proofs)-1]
			p.kind, p.what = kind, what
		}
	}
	return proofs, nil
}

// checkCommands sees that each command of the pages has a proof, that nothing
// else has, and that the proofs hold.
func checkCommands(root string, pages []*page, proofs []proof, long bool) (problems []string, err error) {
	known, used, done := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range proofs {
		known[p.command] = true
	}
	for _, p := range pages {
		for _, c := range p.commands() {
			used[c.text] = true
			if !known[c.text] {
				problems = append(problems, fmt.Sprintf("%s:%d: nothing in commands.txt says how it is known that this works: %s", c.file, c.line, c.text))
			}
		}
	}
	for _, p := range proofs {
		if !used[p.command] {
			problems = append(problems, fmt.Sprintf("commands.txt: no page has the command %s", p.command))
			continue
		}
		switch p.kind {
		case "by":
			file, text, _ := strings.Cut(p.what, " ")
			data, err := os.ReadFile(filepath.Join(root, file))
			if err != nil || text == "" || !strings.Contains(string(data), text) {
				problems = append(problems, fmt.Sprintf("commands.txt: %s: %q is not in %q", p.command, text, file))
			}
		case "run", "long":
			if (p.kind == "run" || long) && !done[p.what] {
				done[p.what] = true
				if out, err := runShell(root, p.what, p.kind == "long"); err != nil {
					problems = append(problems, fmt.Sprintf("commands.txt: %s: %v\n%s", p.command, err, out))
				}
			}
		default:
			problems = append(problems, fmt.Sprintf("commands.txt: %s: there is no proof", p.command))
		}
	}
	return problems, nil
}

// runShell runs a command in the root, with a folder of its own in $tmp.
func runShell(root, text string, long bool) ([]byte, error) {
	limit := time.Minute
	if long {
		limit = 2 * time.Hour
		fmt.Fprintln(os.Stderr, "docs:", text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tmp, err := os.MkdirTemp("", "command")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "tmp="+tmp, "root="+root)
	return cmd.CombinedOutput()
}
