package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// versionCommand prints the version of this command's module, as the go command
// recorded it in the program, the version of Go, and the platform.
func versionCommand(args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("shoal version", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // main prints the error, in one line
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return printHelp(fs, stdout, "usage: shoal version\n\nPrint the version of this command, the version of Go, and the platform.")
	case err != nil:
		return errUsage{fmt.Errorf("%w; version takes no flags", err)}
	case fs.NArg() > 0:
		return errUsage{fmt.Errorf("version takes no arguments, but was given %q", fs.Arg(0))}
	}
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version // (devel) when it was built in a checkout
	}
	_, err = fmt.Fprintf(stdout, "shoal %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
