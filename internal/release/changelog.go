package main

import (
	"fmt"
	"regexp"
	"strings"
)

var heading = regexp.MustCompile(`(?m)^## \[([^\]]*)\].*\n`)

// cut returns CHANGELOG up to the section of a name, its heading, its text and the rest.
func cut(log, name string) (before, head, text, after string, ok bool) {
	for _, at := range heading.FindAllStringSubmatchIndex(log, -1) {
		if log[at[2]:at[3]] != name {
			continue
		}
		rest := log[at[1]:]
		end := len(rest)
		if next := heading.FindStringIndex(rest); next != nil {
			end = next[0]
		}
		return log[:at[0]], log[at[0]:at[1]], rest[:end], rest[end:], true
	}
	return log, "", "", "", false
}

// closeLog makes what is unreleased part of the section of a version, which it makes
// where there is none, and dates that. The notes are the section's text.
func closeLog(log, version, date string) (changed, notes string, err error) {
	name := strings.TrimPrefix(version, "v")
	before, head, fresh, after, ok := cut(log, "Unreleased")
	if !ok {
		return "", "", fmt.Errorf("CHANGELOG.md has no section [Unreleased]")
	}
	between, _, text, rest, ok := cut(after, name)
	if !ok {
		between, rest = "", after
	}
	notes = strings.TrimSpace(strings.TrimSpace(text) + "\n\n" + strings.TrimSpace(fresh))
	if notes == "" {
		return "", "", fmt.Errorf("CHANGELOG.md says nothing of %s: its section, or [Unreleased], is to", version)
	}
	if strings.TrimSpace(between) != "" {
		return "", "", fmt.Errorf("CHANGELOG.md has another section between [Unreleased] and [%s]", name)
	}
	if rest != "" {
		rest = "\n" + rest
	}
	return before + head + "\n## [" + name + "] - " + date + "\n\n" + notes + "\n" + rest, notes, nil
}
