package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shoal-go/shoal/cmd/shoal/internal/work"
)

const deadUsage = `usage: shoal dead list|show|retry|rm [flags] [ID ...]

Look at the dead letters of a durable queue: the jobs that were given up. Name them
by ID, by -type, by -age or -within, or by several of these; then all conditions must be
met.

	list   one a line, the last ones first; the last 50, unless -n, -all or an ID is given
	show   all that is known: the last error, the last 4 KiB that the command has written
	       on its standard error, the payload
	retry  make them jobs again, for shoal work to run, with all their attempts before them
	rm     delete them for ever

retry and rm need a condition, or -all.

The exit status is 2 if the command line is wrong, 1 after another error, and else 0. It is
an error if a given ID is that of no dead letter that meets all conditions, or if -type is
given and no dead letter meets them. With -age, -within or -all alone there may be none.`

var deadDos = []string{"list", "show", "retry", "rm"}

// setAge returns what sets d to a time, which may be in days, as on the page.
func setAge(d *time.Duration) func(string) error {
	return func(s string) (err error) {
		if n, found := strings.CutSuffix(s, "d"); found {
			days, e := strconv.ParseUint(n, 10, 16)
			*d, err = time.Duration(days)*24*time.Hour, e
		} else {
			*d, err = time.ParseDuration(s)
		}
		if err != nil {
			return errors.New("want a time such as 90s, 24h or 7d; of days at most 65535")
		}
		return nil
	}
}

// deadCommand looks at dead letters.
func deadCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var d work.Dead
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		if d.Do, args = args[0], args[1:]; !slices.Contains(deadDos, d.Do) {
			return errUsage{fmt.Errorf("unknown command dead %q; the commands are dead %s", d.Do, strings.Join(deadDos, ", dead "))}
		}
	}
	fs := flag.NewFlagSet("shoal dead", flag.ContinueOnError)
	place(fs, &d.Place)
	fs.StringVar(&d.Filter.Type, "type", "", "those of this `type`")
	fs.Func("age", "those that were given up at least this `time` ago, such as 90s, 24h or 7d", setAge(&d.Filter.Age))
	fs.Func("within", "those that were given up at most this `time` ago", setAge(&d.Filter.Within))
	fs.IntVar(&d.Filter.Limit, "n", 0, "no more than this number; 0: all (default: 50 of list without -all\nand without an ID, else all)")
	fs.BoolVar(&d.JSON, "json", false, "write JSON: list and show write one object a dead letter, with its job (the ID), type,\nattempt, at, reason, output, header, and data, or data_base64 if it is no UTF-8")
	all := fs.Bool("all", false, "all dead letters; retry and rm need it, or a condition")
	if err := parsePlace(fs, &d.Place, args, stdout, deadUsage); err != nil {
		return err
	}
	d.Filter.IDs, d.Filter.Newest = fs.Args(), d.Do == "list" || d.Do == "show"
	given := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if d.Do == "list" && !given["n"] && !*all && len(d.Filter.IDs) == 0 {
		d.Filter.Limit = 50
	}
	some := len(d.Filter.IDs) > 0 || d.Filter.Type != "" || given["age"] || given["within"]
	late := slices.IndexFunc(fs.Args(), func(s string) bool { return strings.HasPrefix(s, "-") })
	switch {
	case late >= 0 && !slices.Contains(args, "--"):
		return errUsage{fmt.Errorf("the flag %s comes after an ID; give it before (an ID that begins with a hyphen comes after --)", fs.Arg(late))}
	case d.Do == "":
		return errUsage{errors.New("what to do is missing: dead " + strings.Join(deadDos, ", dead "))}
	case d.Filter.Check() != nil:
		return errUsage{fmt.Errorf("%w; shoal dead -h lists the flags", d.Filter.Check())}
	case given["type"] && d.Filter.Type == "": // the filter would take it for no condition
		return errUsage{errors.New("-type is empty; leave it out, or name a type")}
	case given["within"] && d.Filter.Within == 0:
		return errUsage{errors.New("-within 0s selects none; give a longer time")}
	case *all && some:
		return errUsage{errors.New("-all and a condition are both given; give one of them")}
	case (d.Do == "retry" || d.Do == "rm") && !some && !*all:
		return errUsage{fmt.Errorf("dead %s needs an ID, -type, -age or -within, or -all for all dead letters", d.Do)}
	}
	return d.Run(ctx, stdout, stderr)
}
