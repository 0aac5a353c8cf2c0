package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/shoal-go/shoal/cmd/shoal/internal/demo"
)

type demoFlags struct {
	demo.Config
	period time.Duration
}

// demoCommand runs pools to watch until it is interrupted.
func demoCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parseDemo(args, stdout)
	if err != nil {
		return err
	}
	if c.period > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.period)
		defer cancel()
	}
	c.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{ReplaceAttr: withoutStacks}))
	return demo.Run(ctx, c.Config, stdout)
}

// withoutStacks keeps a warning in the log to one line: the page has the stacks.
func withoutStacks(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "stack" {
		return slog.Attr{}
	}
	return a
}

func parseDemo(args []string, help io.Writer) (c demoFlags, err error) {
	fs := flag.NewFlagSet("shoal demo", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // main prints the error, in one line
	fs.StringVar(&c.Listen, "listen", "127.0.0.1:8686", "serve the page, metrics and profiles at this `address`, to everybody who can reach it")
	fs.DurationVar(&c.period, "for", 0, "end after this time (default: end when interrupted)")
	fs.StringVar(&c.Dir, "dir", ".", "hash the files of this `folder`")
	fs.StringVar(&c.Token, "token", "", "the `token` that unlocks the controls of the page, at least 16 bytes (default: a random one)")
	fs.DurationVar(&c.Drain, "drain", 5*time.Second, "at the end, wait this long for running tasks, which are cancelled")
	err = fs.Parse(args)
	nowhere := false
	fs.Visit(func(f *flag.Flag) { nowhere = nowhere || f.Name == "listen" && c.Listen == "" })
	switch {
	case errors.Is(err, flag.ErrHelp):
		return c, printHelp(fs, help, "usage: shoal demo [flags]\n\nRun pools that hash a tree of files, fetch pages from a local server, and call a slow\ndependency that hangs once a minute. Serve a page to watch them.")
	case err != nil:
		return c, errUsage{fmt.Errorf("%w; shoal demo -h lists the flags", err)}
	case fs.NArg() > 0:
		return c, errUsage{fmt.Errorf("demo takes flags only, not the argument %q; shoal demo -h lists the flags", fs.Arg(0))}
	case nowhere: // it would be every address of this machine
		return c, errUsage{errors.New("-listen is empty; give it an address such as 127.0.0.1:8080, or leave it out")}
	case c.period < 0:
		return c, errUsage{fmt.Errorf("-for %v must be at least 0s", c.period)}
	case c.Drain < 0:
		return c, errUsage{fmt.Errorf("-drain %v must be at least 0s", c.Drain)}
	case c.Token != "" && len(c.Token) < 16:
		return c, errUsage{fmt.Errorf("-token has %d bytes; it must have at least 16", len(c.Token))}
	}
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return c, errUsage{fmt.Errorf("-dir %s must name a folder that exists", c.Dir)}
	}
	if c.Token == "" {
		c.Token = rand.Text()
	}
	c.Clock = time.Minute
	return c, nil
}
