package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/cmd/shoal/internal/work"
)

// place adds the flags that name the queue.
func place(fs *flag.FlagSet, p *work.Place) {
	fs.StringVar(&p.Dir, "dir", "shoal-queue", "the `folder` of the queue, on a disk of this machine; it gets an SQLite database,\nwhich processes that name the same folder share")
	fs.StringVar(&p.NATS, "nats", "", "the `address` of a NATS server that has the queue, instead of -dir")
	fs.StringVar(&p.SQL, "sql", "", "the `database` that has the queue, instead of -dir: a postgres:// address, or the file of an SQLite database")
	fs.StringVar(&p.Queue, "queue", "default", "the `name` of the queue")
	fs.DurationVar(&p.Lease, "lease", 30*time.Second, "lease a job for this time, at least 100ms; with -nats all processes of a queue need the same")
}

// validQueue is what Open of contrib/sql and contrib/nats demand of a name. It is checked here too
// since it is part of the command line, and before anything is made.
var validQueue = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// parsePlace parses args, and checks the flags that place added.
func parsePlace(fs *flag.FlagSet, p *work.Place, args []string, help io.Writer, usage string) error {
	fs.SetOutput(io.Discard) // main prints the error, in one line
	err := fs.Parse(args)
	dir, empty := false, ""
	fs.Visit(func(f *flag.Flag) {
		dir = dir || f.Name == "dir"
		if slices.Contains([]string{"dir", "nats", "sql", "listen"}, f.Name) && f.Value.String() == "" {
			empty = f.Name
		}
	})
	switch {
	case errors.Is(err, flag.ErrHelp):
		return printHelp(fs, help, usage)
	case err != nil && strings.HasSuffix(err.Error(), ": -lose-writes-on-power-failure"):
		return errUsage{errors.New("-lose-writes-on-power-failure went with the NATS server that -dir started; leave it out: -dir is an SQLite database, which is faster")}
	case err != nil:
		return errUsage{fmt.Errorf("%w%s; %s -h lists the flags", err, wants(fs, err), fs.Name())}
	case p.Lease < 100*time.Millisecond:
		return errUsage{fmt.Errorf("-lease %v must be at least 100ms", p.Lease)}
	case empty != "": // as of a variable that is not set; the default would be another queue
		return errUsage{fmt.Errorf("-%s is empty; give it a value, or leave it out", empty)}
	case !validQueue.MatchString(p.Queue):
		return errUsage{fmt.Errorf("-queue %q must be 1 to 100 letters, digits, _ or -", p.Queue)}
	case p.Check() != nil:
		return errUsage{p.Check()}
	case p.NATS != "" && p.SQL != "":
		return errUsage{errors.New("-nats and -sql are both set; set at most one of them")}
	case dir && (p.NATS != "" || p.SQL != ""):
		return errUsage{errors.New("-dir is set, and so is -nats or -sql; set at most one of them")}
	}
	return nil
}

// printHelp prints the usage of a command and its flags. The error is flag.ErrHelp, or why that failed.
func printHelp(fs *flag.FlagSet, help io.Writer, usage string) error {
	var b bytes.Buffer
	fmt.Fprint(&b, usage+"\n\n")
	fs.SetOutput(&b)
	fs.PrintDefaults()
	if _, err := b.WriteTo(help); err != nil {
		return err
	}
	return flag.ErrHelp
}

// wants says what the flag takes whose value err is about.
func wants(fs *flag.FlagSet, err error) string {
	about, bad := strings.CutSuffix(err.Error(), ": parse error")
	_, name, _ := strings.Cut(about, " for flag -")
	f := fs.Lookup(name)
	if !bad || f == nil {
		return ""
	}
	switch f.Value.(flag.Getter).Get().(type) {
	case time.Duration:
		return ": want a time such as 90s"
	case int:
		return ": want a whole number"
	}
	return ""
}

// mostType is how long a type may be, in bytes.
const mostType = 1 << 10

// enqueueCommand puts lines into a queue.
func enqueueCommand(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var e work.Enqueue
	fs := flag.NewFlagSet("shoal enqueue", flag.ContinueOnError)
	place(fs, &e.Place)
	fs.DurationVar(&e.Delay, "delay", 0, "run the jobs after this time at the earliest")
	fs.StringVar(&e.Type, "type", "", "the `type` of the jobs, for -time-limit of shoal work and for shoal dead")
	fs.BoolVar(&e.JSON, "json", false, "write to the standard output, in JSON, how many lines were enqueued; with -once,\nthose that were skipped count too")
	fs.BoolVar(&e.Once, "once", false, "skip a line whose job was enqueued with -once, whatever its type, and waits, runs,\nis a dead letter, or was done in the last two minutes;\nwith -nats, one that was enqueued in the last two minutes")
	err := parsePlace(fs, &e.Place, args, stdout, "usage: shoal enqueue [flags] <file\n\nPut each line of the standard input as a job into a durable queue. shoal work runs the\njobs. A line has at most 1 MiB, and is a job at once, however slowly the next one\ncomes. The line feed at its end, and a carriage return before it, are no part of the job.\n\n"+
		"An interrupt ends the command, which says how many lines were enqueued.\n\nThe exit status of enqueue is\n\n	0      all lines were enqueued, or with -once skipped\n	1      there was another error\n	2      the command line is wrong\n	128+N  signal N came before all lines were enqueued, such as 130 after Ctrl-C")
	switch {
	case err != nil:
		return err
	case fs.NArg() > 0:
		return errUsage{fmt.Errorf("enqueue takes flags only, not the argument %q; it reads the jobs from standard input", fs.Arg(0))}
	case e.Delay < 0:
		return errUsage{fmt.Errorf("-delay %v must be at least 0s", e.Delay)}
	case len(e.Type) > mostType:
		return errUsage{fmt.Errorf("-type has %d bytes: want at most %d", len(e.Type), mostType)}
	case !utf8.ValidString(e.Type) || strings.Contains(e.Type, "\x00"):
		return errUsage{fmt.Errorf("-type %q must be UTF-8 without a NUL", e.Type)}
	}
	if f, ok := stdin.(*os.File); ok && !e.JSON {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && !isNull(info) {
			fmt.Fprintln(stderr, "enqueue: each line of the standard input is a job; Ctrl-D ends it")
		}
	}
	return e.Run(ctx, stdin, stdout, stderr)
}

// isNull reports whether info is that of the null device, at which nobody types.
func isNull(info os.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

// builtins lists what work can do without a command, one a line.
func builtins(names []string) string {
	var list strings.Builder
	for _, name := range names {
		fmt.Fprintf(&list, "%-8s %s\n", name, work.Builtins[name])
	}
	return list.String()
}

// checkAddress returns an error if address names no port to listen at.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// workCommand runs the jobs of a queue.
func workCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var w work.Work
	fs := flag.NewFlagSet("shoal work", flag.ContinueOnError)
	place(fs, &w.Place)
	names := slices.Sorted(maps.Keys(work.Builtins))
	fs.IntVar(&w.Workers, "workers", runtime.GOMAXPROCS(0), "run up to this many jobs at once")
	fs.IntVar(&w.MaxAttempts, "attempts", 10, "move a job that fails to the dead letters if it has had this many attempts; 0: never.\nThose count too that a kill has cut short, that ended with 75, or, with -nats, that a\nstop has interrupted. But only one that fails makes the job a dead letter: see -max-leases")
	fs.IntVar(&w.MaxLeases, "max-leases", 0, "move a job to the dead letters, and do not run it once more, if it has had this many\nattempts, whatever came of them, as one that kills shoal work each time, or ends with 75\n(default: no limit)")
	fs.DurationVar(&w.Drain, "drain", 10*time.Second, "at the end, let running jobs go on for this time, then end them")
	fs.Func("time-limit", "end a job that runs for longer than this `time`; it has failed, unless the exit status\nof its command then says otherwise. TYPE=TIME is for jobs of a type, and may be repeated\n(default: no limit)", func(s string) error {
		at := strings.LastIndexByte(s, '=') // a type may have one too
		kind, text := s[:max(0, at)], s[at+1:]
		d, err := time.ParseDuration(text)
		switch {
		case err != nil || d < 0:
			return fmt.Errorf("%q is no time of at least 0s, such as 90s", text)
		case at == 0:
			return errors.New("there is no type before the =; leave the = out for jobs of all types")
		case at < 0:
			w.Limit = d
			return nil
		}
		if w.Limits == nil {
			w.Limits = make(map[string]time.Duration)
		}
		w.Limits[kind] = d
		return nil
	})
	fs.DurationVar(&w.Empty, "empty", 0, "end when the queue has been empty for this time; it is not empty while jobs are\ndelayed, or run elsewhere, nor while it does not answer (default: end when interrupted)")
	fs.StringVar(&w.Listen, "listen", "", "serve the live page at this `address`, to everybody who can reach it; its\ncontrols and dead letters need the token in $SHOAL_TOKEN, or else the printed one")
	fs.BoolVar(&w.JSON, "json", false, "write everything to the standard output, one JSON object a line. Its \"event\" is output,\njob, progress or end. Output that is no UTF-8 is in \"output_base64\". \"back\" counts the runs\nwhose job is to run again, \"failed\" those of them that failed, \"lost\" the runs whose result\nthe queue has not taken, \"dead\" the dead letters of this process, \"dead_letters\" all")
	fs.BoolVar(&w.Quiet, "q", false, "print no progress")
	fs.StringVar(&w.Do, "do", "", "instead of a command, run this built-in `work`:\n"+builtins(names)+"(default: run the command)")
	err := parsePlace(fs, &w.Place, args, stdout, "usage: shoal work [flags] [--] command [argument ...]\n\n"+
		"Run the command for each job of a durable queue. Its standard input is the\njob and a line feed; its environment has SHOAL_JOB, SHOAL_ATTEMPT and SHOAL_TYPE. Its\nexit status decides what becomes of the job:\n\n"+
		"	0        the job is done\n	65       the job can never be done; it goes to the dead letters\n	75       the job is tried again after 5s, any number of times unless\n	         -max-leases says otherwise\n	another  the job failed; it is tried again later\n\nThe jobs that were given up are kept: shoal dead shows them, and the last 4 KiB that\nthe command has written on its standard error. If the command ends well, what it has\nwritten there is dropped. A job of 64 KiB and more is a file without a name, which a\ncommand that opens /dev/stdin reads from its beginning each time.\n\n"+
		"The standard output of a command is passed on when the command ends. If that fails,\nthe job has failed too. If it is more than 64 MiB, the command is ended, and the job\nhas failed. If it goes into a pipe whose reader has ended, shoal work ends and gives\nthe job back. So use a reader that a Ctrl-C does not end, such as tee -i. If the\nstandard output is closed, as by >&-, what commands write there is lost.\n\nEach command has a process group of its own. To end it is to send SIGTERM to that\ngroup, and SIGKILL 0.8s later. Processes that it leaves behind when it ends are killed,\n0.8s later if they hold its output. If shoal work is killed, so are all commands;\nwhere there is no /proc, as on macOS, perhaps not one that it has just started. Neither\nthat nor a signal reaches a process that setsid has given a session. A signal does not\nreach one that has changed its group, as in a script timeout without --foreground. A\ncommand that reads the terminal, as /dev/tty, is stopped, and nothing lets it go on:\ngive a -time-limit.\n\n"+
		"After the first Ctrl-C, SIGTERM or SIGHUP no more jobs are taken, and those that run\nhave the time of -drain to end. Then the commands are ended. The second one is passed\non to the commands. Jobs that fail because of that are given back. After the third one\nthe commands are killed. A SIGHUP counts only as the first one, and is ignored\nunder nohup.\n\nA command that SIGINT, SIGTERM or SIGHUP has ended, or that has the exit status 130, 143\nor 129, keeps its worker for up to 1s more, and for no more than half of the time that is\nleft of its -time-limit: the signal may have been meant for shoal work too.\n\nThe progress names the last failure. If a job has run for more than 10s, it names\nthe one that has run for longest, with its process.\n\nThe exit status of work is\n\n	0      no job became a dead letter here\n	1      there was another error; with -empty also if the queue does not answer at the\n	       end, or the result of some runs is not known and jobs are left\n	2      the command line is wrong, or the command cannot be run\n	3      some jobs became dead letters here\n	128+N  with -empty: signal N came before the queue was empty, such as 130 after Ctrl-C\n\nWithout -empty, work ends by a signal, and the status is 0 or 3. The summary at the\nend says how many jobs are left, and so does the event end of -json.")
	_, known := work.Builtins[w.Do]
	emptyGiven := false
	fs.Visit(func(f *flag.Flag) { emptyGiven = emptyGiven || f.Name == "empty" })
	switch {
	case err != nil:
		return err
	case w.Do == "" && fs.NArg() == 0:
		return errUsage{fmt.Errorf("a command to run for each job is missing; give one, or -do %s", strings.Join(names, ", -do "))}
	case w.Do != "" && fs.NArg() > 0:
		return errUsage{fmt.Errorf("-do %s and the command %q are both given; give one of them", w.Do, fs.Arg(0))}
	case w.Do != "" && !known:
		return errUsage{fmt.Errorf("-do %q must be one of %s", w.Do, strings.Join(names, ", "))}
	case w.Workers < 1 || w.Workers > shoal.MaxWorkers:
		return errUsage{fmt.Errorf("-workers %d must be from 1 to %d", w.Workers, shoal.MaxWorkers)}
	case w.MaxAttempts < 0:
		return errUsage{fmt.Errorf("-attempts %d must be at least 0", w.MaxAttempts)}
	case w.MaxLeases < 0:
		return errUsage{fmt.Errorf("-max-leases %d must be at least 0", w.MaxLeases)}
	case w.Drain < 0:
		return errUsage{fmt.Errorf("-drain %v must be at least 0s", w.Drain)}
	case w.Empty < 0:
		return errUsage{fmt.Errorf("-empty %v must be at least 0s", w.Empty)}
	case w.Empty == 0 && emptyGiven:
		return errUsage{errors.New("-empty 0s is no time; leave it out to end when interrupted, or give a longer time")}
	case w.Listen != "":
		if err := checkAddress(w.Listen); err != nil {
			return errUsage{fmt.Errorf("-listen %s: %w; want an address such as 127.0.0.1:8080", w.Listen, err)}
		}
		if err := work.CheckToken(); err != nil {
			return errUsage{err}
		}
	}
	w.Command = fs.Args()
	w.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{ReplaceAttr: withoutStacks}))
	return w.Run(ctx, stdout, stderr)
}
