package work

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestASayerDoesNotWait for its reader, who learns how much is missing.
func TestASayerDoesNotWait(t *testing.T) {
	out, in := io.Pipe()
	s := &Sayer{To: in}
	line := strings.Repeat("x", mostUnsaid/4-1) + "\n"
	fmt.Fprint(s, "-"+line)
	if _, err := out.Read(make([]byte, 1)); err != nil { // so it waits for the rest to be read
		t.Fatal(err)
	}
	n := 1
	for ; s.dropped < 3; n++ {
		fmt.Fprint(s, line)
	}
	go func() {
		s.Close()
		in.Close()
	}()
	b, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat(line, n-3) + "work: 3 lines are missing here, for want of a reader\n"
	if got := string(b); got != want {
		t.Errorf("%d lines of %d were read, the last is %.60q", strings.Count(got, "\n"), n, got[strings.LastIndex(strings.TrimSpace(got), "\n")+1:])
	}
}
