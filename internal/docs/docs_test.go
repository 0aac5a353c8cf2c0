package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const text = "# One page\n" +
	"\n" +
	"A [link](other.md#a-heading), a [dead one](none.md), a [dead\n" +
	"anchor](other.md#none), a [picture](https://example.com/x.png), `[no link](x.md)`.\n" +
	"Type `go test -run X\n" +
	".`, but not `go f()`.\n" +
	"\n" +
	"    $ make check    # a comment\n" +
	"    its output\n" +
	"\n" +
	"<!-- go\n" +
	"var f func() (int, error)\n" +
	"-->\n" +
	"```go\n" +
	"n, err := f()\n" +
	"```\n" +
	"\n" +
	"```sh\n" +
	"bash x.sh\n" +
	"```\n"

func TestLinksAndAnchorsThatLeadNowhere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "other.md"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	got := checkLinks(dir, []*page{parsePage("page.md", text), parsePage("other.md", "## A `heading`\n")})
	want := []string{"page.md:3: there is no file none.md", "page.md:4: other.md has no heading #none"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPagesThatSourcesMention(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("// See docs/"+"gone.md.\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	got, err := checkMentions(dir, []string{"x.go"})
	if err != nil || len(got) != 1 || !strings.Contains(got[0], "x.go:1") {
		t.Errorf("%q %v", got, err)
	}
}

func TestNamesThatDoNotExist(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "shoalhttp", "shoalexpvar", "jobs"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	const source = "package shoal\n\ntype Pool struct{}\n\nfunc (*Pool) Wait() {}\n\nconst Forever = 1\n\nfunc WithX() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	got, err := checkNames(dir, []*page{parsePage("page.md", "`pool.Wait()`, `shoal.Forever`, `WithX()`\n`pool.Len()`\n`shoal.Never`\n`WithY(1)`\n")})
	if err != nil || len(got) != 3 {
		t.Fatalf("%q %v", got, err)
	}
	for i, want := range []string{"page.md:2: there is no Pool.Len", "page.md:3: there is no Never", "page.md:4: there is no WithY"} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("%q, want %q", got[i], want)
		}
	}
}

func TestCommandsOfAPage(t *testing.T) {
	var got []string
	for _, c := range parsePage("page.md", text).commands() {
		got = append(got, c.text)
	}
	if want := []string{"make check", "bash x.sh", "go test -run X ."}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEachCommandNeedsAProofThatHolds(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("bash x.sh\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	proofs, err := readProofs("# a comment\n\nbash x.sh\n\tby: script bash x.sh\ngo test -run X .\n\trun: test -d \"$tmp\"\nmake check\n\tlong: false\n")
	if err != nil {
		t.Fatal(err)
	}
	pages := []*page{parsePage("page.md", text)}
	check := func(proofs []proof, pages []*page, long bool, want ...string) {
		t.Helper()
		got, err := checkCommands(dir, pages, proofs, long)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%q %v, want %q", got, err, want)
		}
		for i := range got {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%q, want %q", got[i], want[i])
			}
		}
	}
	check(proofs, pages, false)
	check(proofs, pages, true, "make check: exit status 1")
	check(proofs[1:], pages, false, "page.md:19: nothing in commands.txt")
	check(proofs, nil, false, "no page has", "no page has", "no page has")
	proofs[0].what = "script bash y.sh"
	proofs[1].what = "false"
	proofs[2].kind = ""
	check(proofs, pages, false, `"bash y.sh" is not in "script"`, "go test -run X .: exit status 1", "there is no proof")
}

func TestTheListIsWellFormed(t *testing.T) {
	if _, err := readProofs(commandsText); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"\trun: x\n", "go test x\n\tperhaps: y\n", "go test x\n\trun: y\n\trun: z\n"} {
		if _, err := readProofs(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestFragmentsBecomeFiles(t *testing.T) {
	got, isTest, err := source("page.md", parsePage("page.md", text).blocks[1])
	const want = "package fragment\n" +
		"import context \"context\"\n" +
		"import shoal \"github.com/shoal-go/shoal\"\n" +
		"var f func() (int, error)\n" +
		common +
		"func _() error {\n" +
		"//line page.md:15\n" +
		"n, err := f()\n" +
		"_ = n\n_ = err\nreturn nil\n}\n"
	if err != nil || isTest || got != want {
		t.Errorf("%v %v\n%s\nwant\n%s", isTest, err, got, want)
	}
	got, isTest, err = source("page.md", block{line: 3, lines: []string{"func TestX(t *testing.T) {}"}})
	if err != nil || !isTest || !strings.HasPrefix(got, "package fragment\nimport testing \"testing\"\n//line page.md:3\n") {
		t.Errorf("%v %v\n%s", isTest, err, got)
	}
	if _, _, err := source("page.md", block{lines: []string{"x := …"}}); err == nil {
		t.Error("what is not Go is accepted")
	}
}
