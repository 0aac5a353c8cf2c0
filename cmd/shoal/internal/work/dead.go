package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/shoal-go/shoal/jobs"
)

// Dead is what the command dead does.
type Dead struct {
	Place
	Do     string // list, show, retry or rm
	Filter jobs.DeadFilter
	JSON   bool
}

// Run runs the command. Results go to stdout, messages to stderr.
func (d Dead) Run(ctx context.Context, stdout, stderr io.Writer) error {
	d.Existing = true
	q, err := Open(ctx, d.Place)
	if err != nil {
		return err
	}
	defer q.Close()
	store, ok := q.Source.(jobs.DeadStore)
	if !ok {
		return fmt.Errorf("the queue at %s keeps no dead letters", q.Where)
	}
	if d.Do == "retry" || d.Do == "rm" { // list and show end by a SIGPIPE, as other programs do
		notifyPipe()
	}
	switch d.Do {
	case "retry":
		n, err := store.RetryDead(ctx, d.Filter)
		return d.did("retried", n, err, stdout, stderr)
	case "rm":
		n, err := store.DeleteDead(ctx, d.Filter)
		return d.did("deleted", n, err, stdout, stderr)
	}
	f, n := d.Filter, d.Filter.Limit
	if n > 0 && n < math.MaxInt {
		f.Limit++ // so that it is known whether there are more
	}
	all, err := store.DeadLetters(ctx, f)
	if err != nil {
		return err
	}
	more := n > 0 && len(all) > n
	if more {
		all = all[:n]
	}
	switch {
	case d.JSON:
		err = deadJSON(stdout, all)
	case d.Do == "show":
		err = showDead(stdout, all)
	default:
		err = listDead(stdout, all, time.Now())
	}
	if err != nil {
		return err
	}
	if err := d.missing(len(all)); err != nil {
		return err
	}
	switch {
	case more:
		fmt.Fprintf(stderr, "there are more than these %d: -n 0 lists all\n", n)
	case len(all) == 0 && (f.Age > 0 || f.Within > 0):
		fmt.Fprintf(stderr, "no dead letter of queue %s %s\n", d.Queue, d.conditions())
	case len(all) == 0:
		fmt.Fprintf(stderr, "no dead letters in queue %s at %s\n", d.Queue, q.Where)
	}
	return nil
}

// did says how many dead letters something was done to.
func (d Dead) did(what string, n int, err error, stdout, stderr io.Writer) error {
	if d.JSON {
		if bad := json.NewEncoder(stdout).Encode(map[string]int{what: n}); bad != nil {
			err = errors.Join(err, fmt.Errorf("%d dead letters are %s, but the output cannot be written: %w", n, what, bad))
		}
	} else {
		fmt.Fprintf(stderr, "%d dead letters %s\n", n, what)
	}
	if err == nil {
		err = d.missing(n)
	}
	return err
}

// missing is an error if some of the jobs that were named are no dead letters, or none has the
// type: a name may be mistyped. n dead letters meet all conditions.
func (d Dead) missing(n int) error {
	ids := slices.Compact(slices.Sorted(slices.Values(d.Filter.IDs)))
	if n > 0 && (n >= len(ids) || n == d.Filter.Limit) || len(ids) == 0 && d.Filter.Type == "" {
		return nil
	}
	if n > 0 {
		return fmt.Errorf("of %d IDs only %d are those of dead letters of queue %s that meet all conditions", len(ids), n, d.Queue)
	}
	return fmt.Errorf("no dead letter of queue %s %s; shoal dead list shows those that there are", d.Queue, d.conditions())
}

// conditions says what a dead letter has that is selected.
func (d Dead) conditions() string {
	var has []string
	switch ids := slices.Compact(slices.Sorted(slices.Values(d.Filter.IDs))); len(ids) {
	case 0:
	case 1:
		has = append(has, fmt.Sprintf("has the ID %q", ids[0]))
	default:
		has = append(has, fmt.Sprintf("has one of the %d IDs", len(ids)))
	}
	if d.Filter.Type != "" {
		has = append(has, fmt.Sprintf("has the type %q", d.Filter.Type))
	}
	if d.Filter.Age > 0 {
		has = append(has, fmt.Sprintf("was given up at least %v ago", d.Filter.Age))
	}
	if d.Filter.Within > 0 {
		has = append(has, fmt.Sprintf("was given up at most %v ago", d.Filter.Within))
	}
	return strings.Join(has, " and ")
}

// printable is s without what could change a terminal; line breaks and tabs stay if lines is set.
func printable(s string, lines bool) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case unicode.IsPrint(r), lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// listDead writes a table, one dead letter a line.
func listDead(w io.Writer, all []jobs.DeadLetter, now time.Time) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tTYPE\tATTEMPTS\tAGE\tREASON")
	for _, l := range all {
		reason, _ := l.Split()
		kind := l.Type()
		if kind == "" {
			kind = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", printable(l.ID, false), printable(kind, false), l.Attempt, age(now.Sub(l.At)), printable(reason, false))
	}
	return t.Flush()
}

// age is a time in one unit, or two.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// showDead writes all that is known.
func showDead(w io.Writer, all []jobs.DeadLetter) error {
	for i, l := range all {
		var b strings.Builder
		if i > 0 {
			b.WriteString("\n")
		}
		reason, output := l.Split()
		fmt.Fprintf(&b, "job       %s\n", printable(l.ID, false))
		for _, k := range slices.Sorted(maps.Keys(l.Header)) {
			name := "header    " + printable(k, false) + ": "
			if k == jobs.TypeHeader {
				name = "type      "
			}
			fmt.Fprintf(&b, "%s%s\n", name, printable(l.Header[k], false))
		}
		fmt.Fprintf(&b, "attempts  %d\ndied      %s\nreason    %s\n", l.Attempt, l.At.Local().Format(time.RFC3339), printable(reason, false))
		block := func(name, text string) {
			if text = strings.TrimRight(printable(text, true), "\n"); text != "" {
				fmt.Fprintf(&b, "%s\n    %s\n", name, strings.ReplaceAll(text, "\n", "\n    "))
			}
		}
		block("output", output)
		block("payload", string(l.Data))
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// deadJSON writes one object a line.
func deadJSON(w io.Writer, all []jobs.DeadLetter) error {
	e := json.NewEncoder(w)
	for _, l := range all {
		reason, output := l.Split()
		o := struct {
			Job     string      `json:"job"`
			Type    string      `json:"type,omitempty"`
			Attempt int         `json:"attempt"`
			At      time.Time   `json:"at"`
			Reason  string      `json:"reason"`
			Output  string      `json:"output,omitempty"`
			Header  jobs.Header `json:"header,omitempty"`
			Data    string      `json:"data,omitempty"`
			Base64  []byte      `json:"data_base64,omitempty"` // if it is no UTF-8
		}{l.ID, l.Type(), l.Attempt, l.At.UTC(), reason, output, l.Header, "", nil}
		if utf8.Valid(l.Data) {
			o.Data = string(l.Data)
		} else {
			o.Base64 = l.Data
		}
		if err := e.Encode(o); err != nil {
			return err
		}
	}
	return nil
}
