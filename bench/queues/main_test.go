package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-child" || os.Args[1] == "-jobs") {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestTheTableIsMade of the subjects that need no other program.
func TestTheTableIsMade(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-jobs", "200", "-runs", "1", "-kills", "1", "-drips", "3", "-run", "^shoal, (NATS|SQLite)$")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 4 {
		t.Fatalf("%s", out)
	}
	for _, l := range lines[2:] {
		if n := strings.Count(l, "|"); n != 10 || strings.Contains(l, "–") || strings.Contains(l, "| 0 |") {
			t.Errorf("%s", l)
		}
	}
	if out, err := exec.Command(self, "-jobs", "0").CombinedOutput(); err == nil || !strings.Contains(string(out), "-jobs 0 must be at least 1") {
		t.Errorf("%v\n%s", err, out)
	}
}
