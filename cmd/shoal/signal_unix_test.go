//go:build unix

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
)

// A worker is a process of shoal work that runs a shell script for each job.
type worker struct {
	*exec.Cmd
	t   *testing.T
	dir string // $DIR of the scripts
}

// startWorker starts a worker for n jobs, and waits until all of them run.
func startWorker(t *testing.T, n int, script string, args ...string) *worker {
	t.Helper()
	return startWorkerAs(t, func(*exec.Cmd) {}, n, script, args...)
}

// startWorkerAs starts one that change has changed.
func startWorkerAs(t *testing.T, change func(*exec.Cmd), n int, script string, args ...string) *worker {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, dir: t.TempDir()}
	stderr, err := os.Create(filepath.Join(w.dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintln(&lines, i)
	}
	enqueue(t, lines.String(), w.place()...)
	args = append(append([]string{"work", "-workers", fmt.Sprint(n)}, w.place()...), args...)
	w.Cmd = exec.Command(self, append(args, "--", "sh", "-c", "read -r job; "+script)...)
	w.Env = append(os.Environ(), "SHOAL_MAIN=1", "DIR="+w.dir)
	w.Stderr = stderr
	change(w.Cmd)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Process.Kill() })
	w.await("the commands to begin", func() bool { return len(w.files("began*")) == n })
	return w
}

// freeze stops w with SIGSTOP, but not while it writes to its queue: then no other process could.
func (w *worker) freeze() {
	w.t.Helper()
	db, err := sql.Open("sqlite", shoalsql.SQLiteDSN(filepath.Join(w.dir, "queue", "jobs.db")))
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin() // has the only lock for writing
	if err != nil {
		w.t.Fatal(err)
	}
	defer tx.Rollback()
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(w.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		w.t.Fatalf("the worker is not stopped: %v, %v", status, err)
	}
}

func (w *worker) place() []string { return []string{"-dir", filepath.Join(w.dir, "queue")} }

func (w *worker) files(pattern string) []string {
	all, err := filepath.Glob(filepath.Join(w.dir, pattern))
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *worker) said() string {
	b, err := os.ReadFile(filepath.Join(w.dir, "stderr"))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *worker) await(what string, there func() bool) {
	w.t.Helper()
	for range 2000 {
		if there() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("waited in vain for %s\n%s", what, w.said())
}

// signal sends a signal to the worker alone, and waits until that has said so.
func (w *worker) signal(s os.Signal, says string) {
	w.t.Helper()
	if err := w.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
	w.await(says, func() bool { return strings.Contains(w.said(), says) })
}

// letGo makes the file that commands wait for.
func (w *worker) letGo() {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// groups are the process groups of the commands.
func (w *worker) groups() (all []int) {
	w.t.Helper()
	for _, f := range w.files("began*") {
		b, err := os.ReadFile(f)
		if err != nil {
			w.t.Fatal(err)
		}
		var group int
		fmt.Sscan(string(b), &group)
		all = append(all, group)
	}
	return all
}

// groupsEnd waits until no process is left of those that the commands have started.
func (w *worker) groupsEnd() {
	w.t.Helper()
	for _, group := range w.groups() {
		w.await(fmt.Sprint("the end of process group ", group), func() bool { return syscall.Kill(-group, 0) == syscall.ESRCH })
	}
}

// ends waits for the end of the worker, which gives n jobs back.
func (w *worker) ends(n int) {
	w.t.Helper()
	if err := w.Wait(); err != nil {
		w.t.Errorf("shoal work: %v\n%s", err, w.said())
	}
	w.groupsEnd()
	start := time.Now()
	out, said := doWork(w.t, append(w.place(), "-attempts", "2", "-do", "print")...)
	if strings.Count(out, "\n") != n || strings.Contains(w.said()+said, "became") {
		w.t.Errorf("%q were given back, want %d\n%s%s", out, n, w.said(), said)
	}
	if d := time.Since(start); d > 15*time.Second {
		w.t.Errorf("after %v: their lease is 30s", d)
	}
}

const (
	begin   = "echo $$ >$DIR/new$job; mv $DIR/new$job $DIR/began$job; "
	forEver = "while :; do sleep 0.05; done"
)

func TestTheFirstSignalLetsCommandsEnd(t *testing.T) {
	w := startWorker(t, 2, begin+"while [ ! -e $DIR/go ]; do sleep 0.05; done; : >$DIR/done$job", "-attempts", "1")
	w.signal(os.Interrupt, "stopping; 2 jobs run")
	w.letGo()
	w.ends(0)
	if n := len(w.files("done*")); n != 2 {
		t.Errorf("%d jobs were done, want 2", n)
	}
}

// TestTheSecondSignalIsPassedOn: and what fails by it has not used up its only attempt.
func TestTheSecondSignalIsPassedOn(t *testing.T) {
	w := startWorker(t, 2, "trap ': >$DIR/told$job; exit 1' INT; "+begin+forEver, "-attempts", "1")
	w.signal(os.Interrupt, "stopping")
	w.signal(os.Interrupt, "passing the signal on")
	w.ends(2)
	if n := len(w.files("told*")); n != 2 {
		t.Errorf("%d commands were told, want 2", n)
	}
}

// TestAHangupIsAFirstSignal, and never another one: a terminal that is closed sends several.
func TestAHangupIsAFirstSignal(t *testing.T) {
	w := startWorker(t, 2, begin+"while [ ! -e $DIR/go ]; do sleep 0.05; done; : >$DIR/done$job", "-attempts", "1")
	w.signal(syscall.SIGHUP, "stopping; 2 jobs run")
	for range 3 {
		if err := w.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // else several become one
	}
	w.letGo()
	w.ends(0)
	if n := len(w.files("done*")); n != 2 || strings.Contains(w.said(), "passing") {
		t.Errorf("%d jobs were done, want 2\n%s", n, w.said())
	}
}

// TestAnIgnoredHangupStaysIgnored, as under nohup.
func TestAnIgnoredHangupStaysIgnored(t *testing.T) {
	nohup := func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, c.Args...)
		c.Path, _ = exec.LookPath("sh")
	}
	w := startWorkerAs(t, nohup, 1, begin+"while [ ! -e $DIR/go ]; do sleep 0.05; done; : >$DIR/done$job", "-empty", "1s")
	if err := w.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	w.letGo()
	w.ends(0)
	if len(w.files("done*")) != 1 || strings.Contains(w.said(), "stopping") {
		t.Errorf("work said %s", w.said())
	}
}

// TestTheStatusOfAnInterruptedWork: it is that of the signal if the work was to go on until the
// queue is empty, and has not.
func TestTheStatusOfAnInterruptedWork(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal os.Signal
		more   string // jobs that are left
		args   []string
		want   int
		says   string
	}{
		{"SIGINT", os.Interrupt, "1\n2\n", []string{"-empty", "1h"}, 130, "interrupted (interrupt) before the queue was empty; 2 jobs are left"},
		{"SIGTERM", syscall.SIGTERM, "1\n", []string{"-empty", "1h"}, 143, "1 jobs are left"},
		{"SIGHUP", syscall.SIGHUP, "1\n", []string{"-empty", "1h"}, 129, "1 jobs are left"},
		{"all done", os.Interrupt, "", []string{"-empty", "1h"}, 0, "1 done"},
		{"a service", syscall.SIGTERM, "1\n", nil, 0, "1 done"},
		{"in JSON", syscall.SIGTERM, "1\n", []string{"-empty", "1h", "-json"}, 143, "1 jobs are left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			w := startWorkerAs(t, func(c *exec.Cmd) { c.Stdout = out }, 1, begin+"while [ ! -e $DIR/go ]; do sleep 0.05; done", c.args...)
			enqueue(t, c.more, w.place()...)
			if slices.Contains(c.args, "-json") {
				if err := w.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second) // nothing is said
			} else {
				w.signal(c.signal, "stopping; 1 jobs run")
			}
			w.letGo() // it takes no more jobs
			if err := w.Wait(); w.ProcessState.ExitCode() != c.want || !strings.Contains(w.said(), c.says) {
				t.Errorf("shoal work: %v, want %d and %q\n%s", err, c.want, c.says, w.said())
			}
			b, err := os.ReadFile(out.Name())
			if err != nil {
				t.Fatal(err)
			}
			if json := c.name == "in JSON"; json != strings.Contains(string(b), `"interrupted":"terminated"`) {
				t.Errorf("%s", b)
			}
		})
	}
}

// TestASignalToAllProcesses, as of systemd: what it kills has not failed by itself.
func TestASignalToAllProcesses(t *testing.T) {
	for _, first := range []bool{true, false} {
		w := startWorker(t, 2, "[ $job = 0 ] || trap 'exit 143' TERM; "+begin+forEver, "-attempts", "1")
		if first {
			w.signal(syscall.SIGTERM, "stopping")
		}
		for _, group := range w.groups() {
			if err := syscall.Kill(-group, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		if !first {
			w.signal(syscall.SIGTERM, "stopping")
		}
		w.ends(2)
	}
}

func TestTheThirdSignalKills(t *testing.T) {
	w := startWorker(t, 2, "trap '' INT TERM; "+begin+forEver, "-attempts", "1", "-drain", "1h")
	w.signal(os.Interrupt, "stopping")
	w.signal(syscall.SIGTERM, "passing the signal on")
	w.signal(os.Interrupt, "killing what runs")
	w.ends(2)
}

// TestTheEndOfTheDrainLeavesNoOrphans: of commands that heed no signal, nor of what they have
// started.
func TestTheEndOfTheDrainLeavesNoOrphans(t *testing.T) {
	w := startWorker(t, 2, "trap '' INT TERM; "+begin+"(trap '' INT TERM; "+forEver+") & "+forEver, "-attempts", "1", "-drain", "100ms")
	w.signal(syscall.SIGTERM, "stopping")
	w.ends(2)
}

func TestAKilledWorkerLeavesNoOrphans(t *testing.T) {
	w := startWorker(t, 2, "trap '' INT TERM HUP; "+begin+"(trap '' INT TERM HUP; "+forEver+") & "+forEver)
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.Wait()
	w.groupsEnd()
}

// TestWhatACommandLeavesBehindEnds with its job.
func TestWhatACommandLeavesBehindEnds(t *testing.T) {
	w := startWorker(t, 1, "exec >/dev/null 2>&1; (trap '' INT TERM; "+forEver+") & "+begin+":", "-empty", "1s")
	w.ends(0)
}

// TestACommandIsDoneThoughItLeavesSomethingBehind, which holds its output open.
func TestACommandIsDoneThoughItLeavesSomethingBehind(t *testing.T) {
	w := startWorker(t, 1, begin+"(trap '' INT TERM; "+forEver+") & exit 0", "-attempts", "1", "-empty", "1s")
	w.ends(0)
}

// TestWorkEndsThoughNobodyReadsItsOutput: a signal, the drain, and it is over.
func TestWorkEndsThoughNobodyReadsItsOutput(t *testing.T) {
	for _, flag := range []string{"-q", "-json"} {
		full, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		w := startWorkerAs(t, func(c *exec.Cmd) { c.Stdout = in }, 2, begin+"head -c 1000000 /dev/zero; : >$DIR/wrote$job", "-drain", "100ms", flag)
		in.Close()
		w.await("the commands to end", func() bool { return len(w.files("wrote*")) == 2 })
		if err := w.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- w.Wait() }()
		select {
		case err := <-ended:
			if w.ProcessState.ExitCode() != 1 {
				t.Errorf("shoal work %s: %v\n%s", flag, err, w.said())
			}
		case <-time.After(time.Minute):
			t.Fatalf("shoal work %s has not ended\n%s", flag, w.said())
		}
	}
}

// TestAReaderThatACtrlCEnds, as of a pipe: why jobs are given back is said.
func TestAReaderThatACtrlCEnds(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := startWorkerAs(t, func(c *exec.Cmd) { c.Stdout = in }, 1, begin+"while [ ! -e $DIR/go ]; do sleep 0.05; done; echo done", "-empty", "1h")
	in.Close()
	w.signal(os.Interrupt, "stopping; 1 jobs run")
	out.Close()
	w.letGo()
	if err := w.Wait(); w.ProcessState.ExitCode() != 1 || !strings.Contains(w.said(), "the output of the job cannot be written") {
		t.Errorf("shoal work: %v\n%s", err, w.said())
	}
}

// TestTooMuchOutput is a failure of the job, and takes not all memory.
func TestTooMuchOutput(t *testing.T) {
	w := startWorker(t, 1, begin+"cat /dev/zero", "-attempts", "1", "-empty", "1s")
	if err := w.Wait(); w.ProcessState.ExitCode() != 3 || !strings.Contains(w.said(), "more than 67108864 bytes") {
		t.Errorf("shoal work: %v\n%s", err, w.said())
	}
}

// TestAnInputIsWholeThoughTheWorkerIsKilled, for a command that outlives it.
func TestAnInputIsWholeThoughTheWorkerIsKilled(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	script := `
		if [ ! -e $DIR/began ]; then : >$DIR/began; exit; fi
		exec setsid -w sh -c ': >$DIR/reads; while [ ! -e $DIR/go ]; do sleep 0.05; done; wc -c >$DIR/new; mv $DIR/new $DIR/count'`
	w := startWorkerAs(t, func(c *exec.Cmd) { c.Args[len(c.Args)-1] = script }, 1, "")
	enqueue(t, strings.Repeat("x", 1<<20), w.place()...)
	w.await("the second command", func() bool { return len(w.files("reads")) == 1 })
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.Wait()
	w.letGo()
	w.await("its end", func() bool { return len(w.files("count")) == 1 })
	b, err := os.ReadFile(filepath.Join(w.dir, "count"))
	if err != nil || strings.TrimSpace(string(b)) != fmt.Sprint(1<<20+1) {
		t.Errorf("the command has read %s bytes (%v), want %d", b, err, 1<<20+1)
	}
}

// TestWorkEndsThoughNobodyReadsWhatItSays: commands begin, and a signal ends the work.
func TestWorkEndsThoughNobodyReadsWhatItSays(t *testing.T) {
	full, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if err := in.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(make([]byte, 8<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the pipe is not full: %v", err)
	}
	w := startWorkerAs(t, func(c *exec.Cmd) { c.Stderr = in }, 2, begin+forEver, "-drain", "100ms", "-empty", "1h")
	in.Close()
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Wait() }()
	select {
	case err := <-ended:
		if w.ProcessState.ExitCode() != 143 {
			t.Errorf("shoal work: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("shoal work has not ended")
	}
	w.groupsEnd()
}

// TestTheEndOfTheDrainTakesTheResult of commands that SIGTERM ends, and gives no job back while its
// command runs.
func TestTheEndOfTheDrainTakesTheResult(t *testing.T) {
	w := startWorker(t, 4, "s=$job; [ $job = 2 ] && s=65; [ $job = 3 ] && s=0; trap \"sleep 0.1; : >\\$DIR/over$job; exit $s\" TERM; "+begin+forEver, "-attempts", "1", "-drain", "100ms")
	t.Setenv("DIR", w.dir)
	w.signal(syscall.SIGTERM, "stopping; 4 jobs run")
	out, said := doWork(t, append(w.place(), "-attempts", "3", "--", "sh", "-c", `read -r job; [ -e $DIR/over$job ] && echo "$job after" || echo "$job beside"`)...)
	if out != "1 after\n" {
		t.Errorf("another worker has run %q, want job 1 alone\n%s", out, said)
	}
	if err := w.Wait(); w.ProcessState.ExitCode() != 3 || !strings.Contains(w.said(), ": 2 done, 0 failed, to be tried again, 1 given back, 1 dead letters") {
		t.Errorf("shoal work: %v\n%s", err, w.said())
	}
}

// TestAnEndThatIsNoFailure: what ends with 0 at its time limit is done.
func TestAnEndThatIsNoFailure(t *testing.T) {
	w := startWorker(t, 1, "trap 'exit 0' TERM; "+begin+forEver, "-attempts", "1", "-time-limit", "5s", "-empty", "1s")
	w.ends(0)
}

// TestAJobThatKillsItsWorker each time becomes a dead letter if leases are bounded.
func TestAJobThatKillsItsWorker(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue"), "-lease", "2s"}
	enqueue(t, "bad\n", place...)
	for _, want := range []int{-1, -1, 3} {
		c := exec.Command(self, append(append([]string{"work", "-max-leases", "2", "-empty", "100ms"}, place...), "--", "sh", "-c", "kill -9 $PPID")...)
		c.Env = append(os.Environ(), "SHOAL_MAIN=1")
		if out, err := c.CombinedOutput(); c.ProcessState.ExitCode() != want {
			t.Fatalf("shoal work: %v, want %d\n%s", err, want, out)
		}
	}
	if out, _, _ := dead(append([]string{"list"}, place...)...); !strings.Contains(out, "lease 3, over the limit of 2") {
		t.Error(out)
	}
}

// TestARunThatIsLost is counted: its worker stood still, and another one has done the job.
func TestARunThatIsLost(t *testing.T) {
	for flag, wants := range map[string][]string{
		"-time-limit=1h": {"work: 1 runs of jobs in ", ", 0 dead letters, 1 whose result is not known, and whose jobs may run again"},
		"-json":          {`"result":"lost"`, `"dead":0,"lost":1,`},
	} {
		w := startWorkerAs(t, func(c *exec.Cmd) { c.Stdout = c.Stderr }, 1, begin+"while [ ! -e $DIR/go ]; do sleep 0.05; done", "-lease", "2s", "-empty", "1s", flag)
		w.freeze()
		if out, said := doWork(t, append(w.place(), "-lease", "2s", "-do", "print")...); out != "0\n" {
			t.Errorf("another worker has done %q\n%s", out, said)
		}
		if err := w.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		w.letGo()
		w.ends(0)
		for _, want := range wants {
			if !strings.Contains(w.said(), want) {
				t.Errorf("%s: work has not said %s, but\n%s", flag, want, w.said())
			}
		}
	}
}

// TestTooMuchOutputEndsTheCommand, also one that goes on when its output is closed.
func TestTooMuchOutputEndsTheCommand(t *testing.T) {
	w := startWorker(t, 1, begin+"head -c 70000000 /dev/zero; "+forEver, "-attempts", "1", "-empty", "1s")
	w.await("the end of the command", func() bool { return strings.Contains(w.said(), "and was ended") })
	if err := w.Wait(); w.ProcessState.ExitCode() != 3 {
		t.Errorf("shoal work: %v\n%s", err, w.said())
	}
	w.groupsEnd()
}

// TestTheExampleTakesEveryName of a file.
func TestTheExampleTakesEveryName(t *testing.T) {
	for _, name := range []string{"sh", "wc", "cat"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	const script = `wc ./"$(cat)"`
	readme, err := os.ReadFile("../../README.md")
	if example := "shoal work -empty 1s sh -c '" + script + "'\n"; err != nil || !strings.Contains(string(readme), example) || !strings.Contains(usage, example) {
		t.Errorf("the example is another one: %v", err)
	}
	t.Chdir(t.TempDir())
	names := []string{"a.md", "a b.md", " a\t.md ", `a'b.md`, `a"b\.md`, "-a.md", "$(a)*.md"}
	for _, name := range names {
		if err := os.WriteFile(name, []byte("1 2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(t, strings.Join(names, "\n"))
	out, said := doWork(t, "--", "sh", "-c", script)
	for _, name := range names {
		if !strings.Contains(out, " ./"+name+"\n") {
			t.Errorf("%q is missing in %q\n%s", name, out, said)
		}
	}
}
