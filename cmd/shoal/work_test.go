package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shoal-go/shoal/cmd/shoal/internal/work"
	"github.com/shoal-go/shoal/internal/postgres"
)

// enqueue runs shoal enqueue on the lines.
func enqueue(t *testing.T, lines string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if err := enqueueCommand(context.Background(), args, strings.NewReader(lines), &stdout, &stderr); err != nil {
		t.Fatalf("shoal enqueue %q: %v", args, err)
	}
	return stderr.String()
}

// doWork runs shoal work until there is nothing left to do.
func doWork(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := workCommand(ctx, append([]string{"-q", "-empty", "1s"}, args...), &out, &errs)
	if dead := (*work.DeadError)(nil); err != nil && !errors.As(err, &dead) {
		t.Errorf("shoal work %q: %v\n%s", args, err, errs.String())
	}
	return out.String(), errs.String()
}

func sortedLines(s string) []string {
	l := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	slices.Sort(l)
	return l
}

// places are where a queue may be.
func places(t *testing.T) map[string][]string {
	return map[string][]string{
		"folder": {"-dir", filepath.Join(t.TempDir(), "new", "queue")},
		"file":   {"-sql", filepath.Join(t.TempDir(), "jobs.db")},
	}
}

func TestEnqueueAndWork(t *testing.T) {
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			var lines strings.Builder
			var want []string
			for i := range 600 {
				fmt.Fprintf(&lines, "job %d\n", i)
				want = append(want, fmt.Sprintf("job %d", i))
			}
			slices.Sort(want)
			if said := enqueue(t, lines.String(), place...); !strings.Contains(said, "enqueued 600 lines") {
				t.Errorf("enqueue said %q", said)
			}
			if out, said := doWork(t, append(place, "-do", "print")...); !slices.Equal(sortedLines(out), want) || !strings.Contains(said, "600 runs of jobs in ") {
				t.Errorf("work has done %d lines, and said %q", strings.Count(out, "\n"), said)
			}
			if out, _ := doWork(t, append(place, "-do", "print")...); out != "" {
				t.Errorf("done again: %q", out)
			}
		})
	}
}

func TestWorkRunsACommand(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	enqueue(t, "a\nb b\n\nbad\nagain\n", place...)
	out, said := doWork(t, append(place, "-workers", "2", "-attempts", "2", "-empty", "3s", "--", "sh", "-c", `
		read -r job
		case $job in
		bad) echo "no good" >&2; exit 65;;
		again) [ "$SHOAL_ATTEMPT" = 2 ] || exit 1;;
		esac
		echo "<$job> $SHOAL_ATTEMPT"`)...)
	if want := []string{"<> 1", "<a> 1", "<again> 2", "<b b> 1"}; !slices.Equal(sortedLines(out), want) {
		t.Errorf("%q, want %q", sortedLines(out), want)
	}
	if !strings.Contains(said, "a dead letter") || !strings.Contains(said, "no good") {
		t.Errorf("work said %q", said)
	}
}

// A brokenWriter is an output that cannot be written.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// TestOutputThatCannotBeWritten is a failure of the job; if nobody reads it any more, the
// work ends.
func TestOutputThatCannotBeWritten(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		err   error
		ends  bool
		wants string
	}{{syscall.ENOSPC, false, "a dead letter"}, {syscall.EPIPE, true, "broken pipe"}, {syscall.EIO, true, "input/output error"}} {
		place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
		enqueue(t, "a\n", place...)
		var said bytes.Buffer
		args := append(place, "-attempts", "1", "--", "sh", "-c", "echo x")
		if !c.ends {
			args = append([]string{"-empty", "500ms"}, args...)
		}
		err := workCommand(ctx, args, brokenWriter{c.err}, &said)
		if all := fmt.Sprint(said.String(), err); ctx.Err() != nil || c.ends != errors.Is(err, c.err) || !strings.Contains(all, c.wants) || !strings.Contains(all, "output") || c.ends && strings.Contains(all, "a dead letter") {
			t.Errorf("%v: work said %s", c.err, all)
		}
	}
}

// TestEnqueueFromASlowPipe: each line is a job at once, and an interrupt ends the wait for
// the next one.
func TestEnqueueFromASlowPipe(t *testing.T) {
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, in := io.Pipe()
	defer in.Close()
	var stdout bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- enqueueCommand(ctx, append([]string{"-json"}, place...), out, &stdout, io.Discard)
	}()
	for _, l := range []string{"a", "b"} {
		fmt.Fprintln(in, l)
		for done := ""; done != l+"\n"; {
			done, _ = doWork(t, append(place, "-do", "print")...)
		}
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "interrupted after line 2") {
		t.Errorf("shoal enqueue: %v", err)
	}
	if !strings.HasPrefix(stdout.String(), `{"enqueued":2,`) {
		t.Errorf("it said %s", stdout.String())
	}
}

func TestTheLongestLine(t *testing.T) {
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat("x", work.MostLine)
			enqueue(t, "a\n"+long+"\r\n"+long, place...)
			if out, _ := doWork(t, append(place, "-do", "print")...); out != "a\n"+long+"\n"+long+"\n" && out != long+"\n"+"a\n"+long+"\n" {
				t.Errorf("%d bytes", len(out))
			}
			err := enqueueCommand(context.Background(), place, strings.NewReader("b\n"+long+"x\n"), io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "reading line 2: it has more than 1048576 bytes") {
				t.Errorf("a line that is too long: %v", err)
			}
		})
	}
}

func TestTimeLimits(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	enqueue(t, "hangs\n", place...)
	enqueue(t, "free\n", append(place, "-type", "re=port")...)
	out, said := doWork(t, append(place, "-attempts", "1", "-time-limit", "300ms", "-time-limit", "re=port=1m", "--", "sh", "-c", `[ "$SHOAL_TYPE" ] || exec sleep 60; sleep 1; echo "$SHOAL_TYPE"`)...)
	if out != "re=port\n" || !strings.Contains(said, "time limit exceeded: it is 300ms") {
		t.Errorf("%q; work said %q", out, said)
	}
}

// TestATimeLimitIsTold as what made a run fail, before it is the last one too.
func TestATimeLimitIsTold(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	enqueue(t, "hangs\n", place...)
	out, _ := doWork(t, append(place, "-json", "-attempts", "2", "-time-limit", "3s", "--", "sh", "-c", "sleep 60")...)
	if strings.Count(out, `"error":"jobs: time limit exceeded: signal: terminated"`) != 2 {
		t.Error(out)
	}
	if out, _, _ := dead(append([]string{"list"}, place...)...); !strings.HasSuffix(out, "  attempt 2 of 2: jobs: time limit exceeded: it is 3s: signal: terminated\n") {
		t.Error(out)
	}
}

// TestWorkSaysAtOnceWhatIsInTheQueue: the name of the queue may be mistyped.
func TestWorkSaysAtOnceWhatIsInTheQueue(t *testing.T) {
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	enqueue(t, "a\nb\n", place...)
	var said bytes.Buffer
	if err := workCommand(t.Context(), append(place, "-empty", "300ms", "-do", "print"), io.Discard, &said); err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(said.String(), "\n"); !strings.Contains(first, "; in the queue 2 ready") {
		t.Error(said.String())
	}
}

// TestACommandThatCannotBeRun: the error says what to do.
func TestACommandThatCannotBeRun(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"none": "#!/no/such/program\n", "bare": "echo\n"} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]string{
		"none": "write ./none", "./none": "its first line names is missing", "./bare": "a first line such as #!/bin/sh",
		"cat -n": "words of their own", "./nobody": "no such file or directory",
	} {
		enqueue(t, "a\n")
		var said bytes.Buffer
		err := workCommand(t.Context(), []string{"-empty", "1m", command}, io.Discard, &said)
		if n := status(err, &said); n != 2 || !strings.Contains(said.String(), want) {
			t.Errorf("%s: status %d, %s, want %q", command, n, said.String(), want)
		}
	}
}

// TestWorkInJSON: each line is an object, and the exit status tells of dead letters.
func TestWorkInJSON(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	enqueue(t, "good\nbad\nlater\n", append(place, "-type", "mail")...)
	var out, said bytes.Buffer
	err := workCommand(context.Background(), append(place, "-json", "-empty", "2500ms", "-attempts", "2", "--", "sh", "-c", `
		read -r job; echo "$job"
		case $job in
		bad) echo why >&2; exit 65;;
		later) [ "$SHOAL_ATTEMPT" = 2 ] || exit 1;;
		esac`), &out, &said)
	if n := status(err, &said); n != 3 || !strings.Contains(said.String(), "1 jobs became dead letters") {
		t.Errorf("exit status %d, %s", n, said.String())
	}
	count := make(map[string]int)
	for l := range strings.Lines(out.String()) {
		var e struct {
			Event, Job, Type, Result, Output, Error string
			Attempt, Done, Back, Dead, Workers      int
			Failed                                  int
			Ready                                   *int64
		}
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		switch e.Event {
		case "job":
			count[fmt.Sprintf("job %s %d %s %s", e.Type, e.Attempt, e.Result, e.Error)]++
		case "output":
			count["output "+e.Output]++
		case "progress":
			if e.Workers == 0 || e.Ready == nil {
				t.Errorf("%s", l)
			}
			count["progress"] = 1
		case "end":
			if e.Failed != 1 || e.Ready == nil || *e.Ready != 0 {
				t.Errorf("%s", l)
			}
			count[fmt.Sprint("end ", e.Done, e.Back, e.Dead)]++
		}
	}
	want := map[string]int{
		"job mail 1 done ": 1, "job mail 1 dead exit status 65: why": 1, "job mail 1 back exit status 1": 1, "job mail 2 done ": 1,
		"output good\n": 1, "output bad\n": 1, "output later\n": 2, "progress": 1, "end 2 1 1": 1,
	}
	if !maps.Equal(count, want) {
		t.Errorf("have %v,\nwant %v\n%s", count, want, out.String())
	}
}

// TestWorkEndsWhenTheQueueIsEmpty: and not while a job waits for its next attempt.
func TestWorkEndsWhenTheQueueIsEmpty(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			enqueue(t, "a\n", place...)
			enqueue(t, "b\n", append(place, "-delay", "1500ms")...)
			out, _ := doWork(t, append(place, "-empty", "50ms", "--", "sh", "-c", `read -r job; [ "$SHOAL_ATTEMPT" = 2 ] && echo "$job"`)...)
			if got := sortedLines(out); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestThePageOfWork shows the queue, and with the token its dead letters.
func TestThePageOfWork(t *testing.T) {
	const token = "a token of 16 bytes"
	t.Setenv("SHOAL_TOKEN", "short")
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue"), "-queue", "mails"}
	work := func(ctx context.Context, said io.Writer) error {
		return workCommand(ctx, append(place, "-listen", "127.0.0.1:0", "--", "sh", "-c", "echo why >&2; exit 65"), io.Discard, said)
	}
	if err := work(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "$SHOAL_TOKEN has 5 bytes: want at least 16") {
		t.Error(err)
	}
	enqueue(t, "bad\n", append(place, "-type", "mail")...)
	enqueue(t, "later\n", append(place, "-delay", "1h")...)
	for _, env := range []string{token, ""} {
		t.Setenv("SHOAL_TOKEN", env)
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- work(ctx, in) }()
		lines := bufio.NewScanner(out)
		lines.Scan()
		m := regexp.MustCompile(`^work: serving the live page at (http://\S+/debug/shoal/)(?:#token=(\w{26}))?$`).FindStringSubmatch(lines.Text())
		if m == nil || (m[2] == "") != (env != "") {
			t.Fatalf("it says %q", lines.Text())
		}
		go io.Copy(io.Discard, out)
		ask := func(method, part, body, want string) {
			t.Helper()
			for {
				r, _ := http.NewRequestWithContext(t.Context(), method, m[1]+part, strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Shoal-Token", cmp.Or(env, m[2]))
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if strings.Contains(string(b), want) {
					return
				}
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("%s: %s", resp.Status, b)
				}
				time.Sleep(50 * time.Millisecond) // the job is not dead yet
			}
		}
		ask("GET", "queues.json", "", `"name":"mails",`)
		ask("GET", "queues.json", "", `"ready":0,"delayed":1,"leased":0,"dead":1,"oldest":0,"dead_letters":true`)
		ask("POST", "dead", `{"queue":"mails","action":"list","type":"mail"}`, `"reason":"exit status 65: why","output":"why`)
		cancel()
		<-ended
		in.Close()
	}
}

func TestOnceAndDelay(t *testing.T) {
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	for range 3 {
		enqueue(t, "the same\n", append(place, "-once")...)
	}
	start := time.Now()
	enqueue(t, "later\n", append(place, "-delay", "1500ms")...)
	out, _ := doWork(t, append(place, "-do", "print", "-empty", "50ms")...)
	if out != "the same\nlater\n" {
		t.Errorf("%q", out)
	}
	if d := time.Since(start); d < 1500*time.Millisecond {
		t.Errorf("all was over after %v", d)
	}
}

func TestProcessesShareAFolder(t *testing.T) {
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	var lines strings.Builder
	for i := range 300 {
		fmt.Fprintln(&lines, i)
	}
	enqueue(t, lines.String(), place...)
	var outs [3]string
	var wg sync.WaitGroup
	for i := range outs {
		wg.Go(func() { outs[i], _ = doWork(t, append(place, "-workers", "2", "-do", "print")...) })
	}
	wg.Wait()
	if all := sortedLines(strings.Join(outs[:], "")); len(all) != 300 || len(slices.Compact(all)) != 300 {
		t.Errorf("%d lines", len(all))
	}
}

func TestWorkSumsFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	place := []string{"-dir", filepath.Join(dir, "queue")}
	enqueue(t, file+"\n"+filepath.Join(dir, "none")+"\n", place...)
	out, said := doWork(t, append(place, "-do", "sha256")...)
	if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  " + file + "\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
	if !strings.Contains(said, "no such file") {
		t.Errorf("work said %q", said)
	}
}

func TestWorkRefusesBadInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.MkdirAll(filepath.Join(dir, "old", "jetstream"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"no-such-command -x":                `"no-such-command" cannot be run`,
		"-lose-writes-on-power-failure cat": "leave it out",
		"-dir " + file + " cat":             "use -sql " + file,
		"-dir " + dir + "/old cat":          "run nats-server -js -sd " + dir + "/old",
		"":                                  "a command to run for each job is missing",
		"-do nothing":                       `-do "nothing"`,
		"-do print cat":                     `-do print and the command "cat"`,
		"-workers 0 cat":                    "-workers 0",
		"-workers few cat":                  "-workers: parse error: want a whole number",
		"-empty 1 cat":                      "-empty: parse error: want a time such as 90s",
		"-attempts -1 cat":                  "-attempts -1",
		"-drain -1s cat":                    "-drain -1s",
		"-empty -1s cat":                    "-empty -1s",
		"-empty 0s cat":                     "-empty 0s is no time",
		"-lease 1ms cat":                    "-lease 1ms",
		"-time-limit soon cat":              `"soon" is no time`,
		"-time-limit a=-1s cat":             `"-1s" is no time`,
		"-dir  cat":                         "-dir",
		"-nats x -sql y cat":                "-nats and -sql",
		"-dir x -sql y cat":                 "-dir is set, and so is -nats or -sql",
		"-nats nats://127.0.0.1:1 cat":      "-nats nats://127.0.0.1:1",
		"-queue a.b -dir " + dir + " cat":   `"a.b"`,
		"-listen nowhere -dir " + dir + " -queue q cat": "-listen",
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		var list []string
		if args != "" {
			list = strings.Split(args, " ")
		}
		err := workCommand(ctx, list, &bytes.Buffer{}, &bytes.Buffer{})
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("shoal work %s: %v, want an error with %q", args, err, want)
		}
	}
	for args, want := range map[string]string{"now": `"now"`, "-delay -1s": "-delay -1s"} {
		if err := enqueueCommand(context.Background(), strings.Split(args, " "), strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("shoal enqueue %s: %v, want an error with %q", args, err, want)
		}
	}
	long := strings.Repeat("x", 2<<20)
	err := enqueueCommand(context.Background(), []string{"-dir", filepath.Join(dir, "long")}, strings.NewReader("a\n"+long+"\n"), &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a line of 2 MB: %v", err)
	}
}

// TestChaos: a little of what make chaos does.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	for _, engine := range []string{"sqlite", "postgres", "nats"} {
		t.Run(engine, func(t *testing.T) {
			out, err := exec.Command("go", "run", "./internal/chaos", "-engine", engine, "-jobs", "1000", "-kills", "10", "-ends", "4", "-stops", "1", "-restarts", "2", "-away", "2s", "-seed", "1").CombinedOutput()
			if err != nil && strings.Contains(string(out), postgres.ErrNone.Error()) && os.Getenv("SHOAL_POSTGRES") != "required" {
				t.Skip(postgres.ErrNone)
			}
			if err != nil || !strings.Contains(string(out), "chaos: 1000 jobs, 10 kills, 0 lost") {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
	for flag, want := range map[string]string{
		"-jobs=0": "-jobs 0 must be at least 1", "-stops=-1": "-stops -1 must be at least 0", "-hang=8": "-hang 8 must be less than -slots 8",
	} {
		out, err := exec.Command("go", "run", "./internal/chaos", flag).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
