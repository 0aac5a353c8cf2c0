// Package again starts the program that runs once more: a test does so where what it looks
// at ends the process, or needs another environment.
package again

import (
	"os"
	"os/exec"
	"strings"
)

// RunWith is the environment variable that names a program, with its arguments, which runs
// this one where the kernel cannot: an emulator of another CPU.
const RunWith = "SHOAL_RUN_WITH"

// Command is a command that runs this program with args. Its environment is this process's,
// and it may be added to: Env is not nil.
func Command(args ...string) *exec.Cmd {
	line := append(strings.Fields(os.Getenv(RunWith)), os.Args[0])
	line = append(line, args...)
	c := exec.Command(line[0], line[1:]...)
	c.Env = os.Environ()
	return c
}
