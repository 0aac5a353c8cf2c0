package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
)

func TestMain(m *testing.M) {
	bench.Metronome()
	race.Child()
	os.Exit(m.Run())
}

// devNull is where progress goes: a file, and no terminal.
func devNull(t *testing.T) *os.File {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestBadInputIsOneLineAndStatus2(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a file")
	if err := os.WriteFile(file, []byte("not JSON"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string
	}{
		{"-speed", "-speed"},
		{"now", `"now"`},
		{"-run (", "missing closing )"},
		{"-run NoSuchWorkload", `"NoSuchWorkload"`},
		{"-pools nosuchpool", `"nosuchpool"`},
		{"-count 0", "-count 0"},
		{"-count x", `"x"`},
		{"-timeout -1s", "-timeout -1s"},
		{"-procs 2,0", `"0"`},
		{"-procs 2,2", "twice"},
		{"-profile", "-out"},
		{"-from=", "-from is empty"},
		{"-out= -quick", "-out is empty"},
		{"-from x -list", "leave out -list"},
		{"-from x -profile -out y", "leave out -profile"},
		{"-from x -quick", "leave out -quick"},
		{"-from x -count 5", "leave out -count"},
		{"-from x -procs 2", "leave out -procs"},
		{"-from x -timeout 2m", "leave out -timeout"},
		{"-from " + filepath.Join(dir, "nothing"), "nothing"},
		{"-from " + strings.ReplaceAll(file, " ", "\x00"), "a file"},
		{"-run SubmitWait -out " + strings.ReplaceAll(file, " ", "\x00"), "-out"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "\x00", " ")
			}
			var stdout, stderr bytes.Buffer
			err := run(context.Background(), args, &stdout, devNull(t))
			if n := status(err, &stderr); n != 2 {
				t.Errorf("exit status %d, want 2", n)
			}
			if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, c.want) {
				t.Errorf("it said %q, want one line with %s", got, c.want)
			}
			if stdout.Len() > 0 {
				t.Errorf("and on standard output: %q", stdout.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	err := run(context.Background(), []string{"-h"}, &stdout, devNull(t))
	if n := status(err, &stderr); n != 0 || stderr.Len() > 0 || !strings.Contains(stdout.String(), "-quick") {
		t.Errorf("status %d, %q, %q", n, stdout.String(), stderr.String())
	}
}

// TestOutputThatCannotBeWritten is an error.
func TestOutputThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(file, []byte(`{"rows":[{"name":"a","units":["ns/op"],"procs":1,"subjects":["shoal"]}]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-h"}, {"-list"}, {"-from", file}, {"-from", file, "-json"}} {
		err := run(context.Background(), args, fullWriter{}, devNull(t))
		if n := status(err, new(bytes.Buffer)); n != 1 || !errors.Is(err, errFull) {
			t.Errorf("%q: status %d, %v", args, n, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := run(context.Background(), []string{"-from", file, "-out", dir}, fullWriter{}, devNull(t)); !errors.Is(err, errFull) {
		t.Errorf("-out: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		t.Errorf("the table could not be written, and neither was the report: %v", err)
	}
}

var errFull = errors.New("no space left")

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

func TestListMeasuresNothingAndNamesAll(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-list"}, &out, devNull(t)); err != nil {
		t.Fatal(err)
	}
	for _, w := range bench.Workloads {
		if !strings.Contains(out.String(), w.Name+" ") {
			t.Errorf("%s is not in the list", w.Name)
		}
	}
	for _, s := range bench.Subjects {
		if !strings.Contains(out.String(), "  "+s.Name+" ") {
			t.Errorf("%s is not in the list", s.Name)
		}
	}
}

// TestBench is the whole command on one short workload.
func TestBench(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	var table bytes.Buffer
	args := []string{"-run", "^(SubmitWait|FanOut)", "-pools", "^(shoal|pond-v2|baseline)$", "-count", "2", "-out", dir}
	if err := run(context.Background(), args, &table, devNull(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SubmitWait", "FanOut/leaves=65536", "pond-v2"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %s in the table:\n%s", want, table.String())
		}
	}
	for _, name := range []string{"results.json", "results.txt", "tables.md", "report.html", "plots/SubmitWait-" + procs(t, dir) + ".svg"} {
		if s, err := os.Stat(filepath.Join(dir, name)); err != nil || s.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	again := new(bytes.Buffer)
	if err := run(context.Background(), []string{"-from", filepath.Join(dir, "results.json")}, again, devNull(t)); err != nil {
		t.Fatal(err)
	}
	if again.String() != table.String() {
		t.Errorf("-from shows\n%s\nafter\n%s", again, &table)
	}
	part := new(bytes.Buffer)
	if err := run(context.Background(), []string{"-from", filepath.Join(dir, "results.json"), "-run", "FanOut", "-pools", "shoal|baseline"}, part, devNull(t)); err != nil {
		t.Fatal(err)
	}
	if s := part.String(); !strings.Contains(s, "FanOut") || strings.Contains(s, "SubmitWait") || strings.Contains(s, "pond-v2") {
		t.Errorf("-from, -run FanOut and -pools shoal show\n%s", s)
	}
	for _, args := range [][]string{{"-run", "Nothing"}, {"-pools", "nobody"}} {
		err := run(context.Background(), append([]string{"-from", filepath.Join(dir, "results.json")}, args...), part, devNull(t))
		if n := status(err, new(bytes.Buffer)); n != 2 || !strings.Contains(err.Error(), args[1]) {
			t.Errorf("-from with %v: status %d, %v", args, n, err)
		}
	}
	err := run(context.Background(), []string{"-from", filepath.Join(dir, "results.json"), "-run", "FanOut", "-out", dir}, part, devNull(t))
	if n := status(err, new(bytes.Buffer)); n != 2 {
		t.Errorf("-out over -from with a selection: status %d, %v", n, err)
	}
}

// TestFailedProfile does not lose what was measured before.
func TestFailedProfile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "profiles"), nil, 0o666); err != nil { // no folder
		t.Fatal(err)
	}
	var table bytes.Buffer
	args := []string{"-run", "^SubmitWait$", "-pools", "^shoal$", "-count", "1", "-profile", "-out", dir}
	err := run(context.Background(), args, &table, devNull(t))
	if n := status(err, new(bytes.Buffer)); n != 1 || !strings.Contains(err.Error(), "profiles") {
		t.Errorf("status %d, %v", n, err)
	}
	if !strings.Contains(table.String(), "SubmitWait") {
		t.Errorf("the table is %q", &table)
	}
	if r, err := race.Read(filepath.Join(dir, "results.json")); err != nil || len(r.Measurements) != 1 {
		t.Errorf("results.json: %v", err)
	}
}

func procs(t *testing.T, dir string) string {
	r, err := race.Read(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, n, _ := strings.Cut(r.Rows[0].Key(), "-")
	return n
}

func TestInterruptedShowsWhatIsFinished(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	earlier := filepath.Join(dir, "results.json")
	if err := os.WriteFile(earlier, []byte("a report"), 0o666); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := run(ctx, []string{"-run", "^SubmitWait$", "-json", "-out", dir}, &out, devNull(t))
	var usage errUsage
	if err == nil || errors.As(err, &usage) || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("it returned %v", err)
	}
	if !strings.Contains(out.String(), `"interrupted": true`) {
		t.Errorf("the results do not say that it was interrupted:\n%s", &out)
	}
	if strings.Contains(out.String(), "null") {
		t.Errorf("a list is null:\n%s", &out)
	}
	if data, err := os.ReadFile(earlier); string(data) != "a report" {
		t.Errorf("nothing was measured, and the report of an earlier run is now %q, %v", data, err)
	}
}
