//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAReaderThatHasEnded does not change what a command has done, nor its status if all is well. A
// command that only shows something ends without a word.
func TestAReaderThatHasEnded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	for _, c := range []struct {
		args   string
		unread string // the output that nobody reads
		status int    // -1: it was ended by SIGPIPE
		says   string // on its standard error; "": nothing
	}{
		{"enqueue", "stderr", 0, ""},
		{"enqueue -json", "stdout", 1, "shoal: 2 lines are enqueued, but the output cannot be written: "},
		{"work -do sleep -attempts 1 -empty 100ms", "stderr", 3, ""},
		{"dead list", "stdout", -1, ""},
		{"dead show -json", "stdout", -1, ""},
		{"dead retry -all", "stderr", 0, ""},
		{"work -json -do sleep -attempts 1 -empty 100ms", "stdout", 1, "broken pipe"},
		{"work -do sleep -attempts 1 -empty 100ms", "stderr", 3, ""},
		{"dead rm -json -all", "stdout", 1, "shoal: 4 dead letters are deleted, but the output cannot be written: "},
		{"dead list", "stderr", -1, ""},
		{"version", "stdout", -1, ""},
	} {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out.Close()
		words := strings.Fields(c.args)
		if words[0] == "dead" {
			words = append(words[:2:2], append(place, words[2:]...)...)
		} else if words[0] != "version" {
			words = append(words[:1:1], append(place, words[1:]...)...)
		}
		p := exec.Command(self, words...)
		p.Env = append(os.Environ(), "SHOAL_MAIN=1")
		p.Stdin = strings.NewReader("no time\nnor this\n")
		var said bytes.Buffer
		p.Stderr = &said
		if c.unread == "stdout" {
			p.Stdout = in
		} else {
			p.Stderr = in
		}
		err = p.Run()
		in.Close()
		by := p.ProcessState.Sys().(syscall.WaitStatus)
		if p.ProcessState.ExitCode() != c.status || by.Signaled() && by.Signal() != syscall.SIGPIPE || !strings.Contains(said.String(), c.says) || c.says == "" && said.Len() > 0 {
			t.Errorf("shoal %s, and nobody reads its %s: %v, want %d; it said %q", c.args, c.unread, err, c.status, said.String())
		}
	}
}
