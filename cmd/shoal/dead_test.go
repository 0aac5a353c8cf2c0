package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// dead runs shoal dead.
func dead(args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	err = deadCommand(context.Background(), args, &out, &errs)
	return out.String(), errs.String(), err
}

// TestDead: an operator finds out why jobs failed, retries some, and deletes others.
func TestDead(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			run := func(wants string, args ...string) (out, said string) {
				t.Helper()
				out, said, err := dead(append(append(args[:1:1], place...), args[1:]...)...)
				if wants == "" && err != nil || wants != "" && (err == nil || !strings.Contains(err.Error(), wants)) {
					t.Errorf("shoal dead %q: %v, want %q", args, err, wants)
				}
				return out, said
			}
			enqueue(t, "mail \x1b[31m\n", append(place, "-type", "mail")...)
			enqueue(t, "photo\n", append(place, "-type", "resize")...)
			enqueue(t, "other\n", place...)
			if out, said := run("", "list"); out != "" || said != "no dead letters in queue default at "+place[1]+"\n" {
				t.Errorf("before: %q, %q", out, said)
			}
			doWork(t, append(place, "--", "sh", "-c", `echo "first of $SHOAL_TYPE" >&2; printf 'last \033 of %s' "$SHOAL_TYPE" >&2; exit 65`)...)

			out, _ := run("", "list")
			lines := strings.Split(out, "\n")
			if len(lines) != 5 || !strings.HasPrefix(lines[0], "ID ") || !strings.Contains(out, `exit status 65: last \x1b of mail`) || strings.ContainsRune(out, 0x1b) {
				t.Errorf("list: %s", out)
			}
			if out, said := run("", "list", "-n", "1"); strings.Count(out, "\n") != 2 || !strings.Contains(said, "more than these 1: -n 0 lists all") {
				t.Errorf("list -n 1: %s, %s", out, said)
			}
			if out, said := run("", "list", "-n", "3"); strings.Count(out, "\n") != 4 || said != "" {
				t.Errorf("list -n 3: %s, %s", out, said)
			}
			if out, said := run("", "list", "-age", "1h"); out != "" || said != "no dead letter of queue default was given up at least 1h0m0s ago\n" {
				t.Errorf("list -age 1h: %s, %s", out, said)
			}
			if out, _ := run("", "show", "-type", "mail"); !strings.Contains(out, "type      mail\n") || !strings.Contains(out, "attempts  1\n") ||
				!strings.Contains(out, "output\n    first of mail\n    last \\x1b of mail\n") || !strings.HasSuffix(out, "payload\n    mail \\x1b[31m\n") {
				t.Errorf("show: %s", out)
			}
			var l struct {
				Job, Type, Reason, Output, Data string
				Attempt                         int
			}
			out, _ = run("", "list", "-json", "-type", "resize")
			if err := json.Unmarshal([]byte(out), &l); err != nil || l.Type != "resize" || l.Attempt != 1 || l.Data != "photo" || !strings.HasPrefix(l.Output, "first of resize\n") {
				t.Errorf("list -json: %s: %v", out, err)
			}

			run("needs an ID", "retry")
			run("needs an ID", "rm")
			run(`has the ID "nobody"`, "retry", "nobody")
			run("of 2 IDs only 1", "show", l.Job, "nobody")
			run("comes after an ID", "rm", l.Job, "-all")
			run(`queue default has the type "mial"`, "retry", "-type", "mial")
			run(`has the type "mial"`, "list", "-type", "mial")
			run(`has the type "mial"`, "show", "-json", "-type", "mial")
			run(`has the ID "`+l.Job+`" and has the type "mail"`, "show", "-type", "mail", l.Job)
			run("has one of the 2 IDs", "rm", "nobody", "else")
			run(`has the type "mail" and was given up at least 1h0m0s ago`, "rm", "-age", "1h", "-type", "mail")
			if out, said := run(`has the type "mial"`, "rm", "-json", "-type", "mial"); out != "{\"deleted\":0}\n" || said != "" {
				t.Errorf("rm -json -type mial: %s, %s", out, said)
			}
			if out, said := run("", "list", "-age", "7d"); out != "" || !strings.HasSuffix(said, " at least 168h0m0s ago\n") {
				t.Errorf("list -age 7d: %s, %s", out, said)
			}
			if out, _ := run("", "list", "-within", "7d"); strings.Count(out, "\n") < 2 {
				t.Errorf("list -within 7d: %s", out)
			}
			if _, said := run("", "retry", "-age", "1h"); said != "0 dead letters retried\n" {
				t.Errorf("retry -age 1h: %s", said)
			}
			run(`has the type "mail" and was given up at most 1ns ago`, "rm", "-within", "1ns", "-type", "mail")
			if out, _ := run("", "list", "-within", "1h", "-type", "resize"); !strings.Contains(out, l.Job) {
				t.Errorf("list -within 1h: %s", out)
			}
			if _, said := run("", "retry", l.Job); said != "1 dead letters retried\n" {
				t.Errorf("retry: %s", said)
			}
			if out, _ := run("", "rm", "-json", "-type", "mail"); out != "{\"deleted\":1}\n" {
				t.Errorf("rm: %s", out)
			}
			if out, _ := doWork(t, append(place, "-do", "print")...); out != "photo\n" {
				t.Errorf("after the retry work has done %q", out)
			}
			if _, said := run("", "rm", "-all"); said != "1 dead letters deleted\n" {
				t.Errorf("rm -all: %s", said)
			}
		})
	}
}

func TestDeadRefusesBadInput(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for args, want := range map[string]string{
		"":                        "what to do is missing",
		"-all":                    "what to do is missing",
		"eat":                     `dead "eat"`,
		"list -n -1":              "-1",
		"rm -age -1s":             "-1s",
		"list -age 10":            `"10" for flag -age: want a time such as 90s, 24h or 7d`,
		"list -within 1.5d":       `"1.5d" for flag -within: want a time such as 90s, 24h or 7d`,
		"list -age 70000d":        `"70000d" for flag -age: want a time such as 90s, 24h or 7d; of days at most 65535`,
		"rm -type= -age 0s":       "-type is empty",
		"retry -type= x":          "-type is empty",
		"list -type=":             "-type is empty",
		"rm -within -1s":          "-1s",
		"rm -within 0s":           "-within 0s",
		"rm -all -type a":         "-all and a condition",
		"rm -all x":               "-all and a condition",
		"list -nats a -sql b":     "-nats and -sql",
		"list -dir " + nowhere:    nowhere + " has no queue",
		"rm -all -sql " + nowhere: nowhere,
	} {
		_, _, err := dead(strings.Fields(args)...)
		if usage := errors.As(err, &errUsage{}); err == nil || !strings.Contains(err.Error(), want) || usage == strings.Contains(args, nowhere) {
			t.Errorf("shoal dead %s: %v, want an error with %q", args, err, want)
		}
	}
}

// TestDeadListIsBounded unless it is told what to list.
func TestDeadListIsBounded(t *testing.T) {
	place := []string{"-dir", filepath.Join(t.TempDir(), "queue")}
	enqueue(t, strings.Repeat("no time\n", 60), place...)
	doWork(t, append(place, "-do", "sleep")...)
	list := func(want int, args ...string) (ids []string) {
		t.Helper()
		out, _, err := dead(append(append([]string{"list"}, place...), args...)...)
		for _, l := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
			ids = append(ids, strings.Fields(l)[0])
		}
		if err != nil || len(ids) != want {
			t.Errorf("list %.40q: %d, want %d: %v", args, len(ids), want, err)
		}
		return ids
	}
	list(50)
	list(3, "-n", "3")
	list(60, list(60, "-all")...)
}
