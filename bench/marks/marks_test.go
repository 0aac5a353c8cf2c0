package marks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestFill(t *testing.T) {
	const text = "a\n<!-- fish: one -->\nold\n<!-- end -->\nb\n<!-- birds: one -->\nkept\n<!-- end -->\n<!-- fish: two -->\n<!-- end -->\n"
	file := filepath.Join(t.TempDir(), "doc.md")
	write := func() {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	say := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := fmt.Fprintln(w, s); return err }
	}
	write()
	if err := Fill(file, "fish", map[string]func(io.Writer) error{"one": say("cod"), "two": say("eel")}); err != nil {
		t.Fatal(err)
	}
	const want = "a\n<!-- fish: one -->\ncod\n<!-- end -->\nb\n<!-- birds: one -->\nkept\n<!-- end -->\n<!-- fish: two -->\neel\n<!-- end -->\n"
	if got := read(); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	write()
	broken := errors.New("broken")
	for name, parts := range map[string]map[string]func(io.Writer) error{
		"a name without a part": {"one": say("cod")},
		"a part that fails":     {"one": say("cod"), "two": func(io.Writer) error { return broken }},
	} {
		if err := Fill(file, "fish", parts); err == nil || read() != text {
			t.Errorf("%s: %v, and it says %q", name, err, read())
		}
	}
	if err := Fill(file+"x", "fish", nil); err == nil {
		t.Error("no error for a file that is not there")
	}
}
