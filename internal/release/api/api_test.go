package api

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"
	"testing/fstest"
)

const source = `package p

import (
	"context"
	"iter"
	"time"
)

const (
	First Kind = iota + 1
	second
	Third
)

type Kind uint8

func (Kind) String() string { return "" }

const Limit = 1 << 40

var ErrX error

type hidden struct{ Name string }

func (hidden) Hello() {}

type Embeds struct {
	hidden
	Count int ` + "`json:\"count\"`" + `
	n     []int
}

type Option interface{ apply(*config) }
type Other interface{ apply(int) }
type config struct{ n int }

type Number interface{ ~int | ~float64 }

type List[K comparable, V any] struct{ m map[K]V }

func (l *List[K, V]) All(ctx context.Context, more ...V) iter.Seq2[K, V] { return nil }

func Sum[T Number](values ...T) (sum T, took time.Duration) { return }

func With(c config) Option { return nil }

type Func = func(chan<- int, <-chan []string) map[string]*hidden
`

func check(t *testing.T, source string) *Package {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	from := importer.ForCompiler(fset, "source", nil)
	pkg, err := (&types.Config{Importer: from}).Check("github.com/shoal-go/shoal/p", fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Package{pkg, from}
}

func listing(t *testing.T, source string) fstest.MapFS {
	t.Helper()
	text, err := List(check(t, source).Package)
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{"p.txt": {Data: text}}
}

// A listing says what the package does: nothing else would be noticed as a change.
func TestListingIsThePackage(t *testing.T) {
	if err := Update(t.TempDir(), []*Package{check(t, source)}); err != nil {
		t.Error(err)
	}
}

func TestCompare(t *testing.T) {
	const old = `package p

type Pool struct{ n int }

func (p *Pool) Len() int { return 0 }

type Source interface{ Pull() }

const Max = 1

func Run(n int) {}

type hook interface{ run() }

func Hook() hook { return nil }
`
	for _, c := range []struct {
		name, now string
		want      []Change
	}{
		{"as it was", old, nil},
		{"what nobody sees", `package p
type Pool struct{ n, m int }
func (q *Pool) Len() int { return 1 }
func (p *Pool) len() {}
type Source interface{ Pull() }
const Max = 1
func Run(times int) {}
type hook interface{ run() }
func Hook() hook { return nil }`, []Change{{Symbol: "", What: "is written differently"}}},
		{"breaks", `package p
type Pool struct{ n []int }
type Source interface{ Pull(); Push() }
const Max = 2
func Run(n int64) {}
type hook interface{ run() }
func Hook() hook { return nil }`, []Change{
			{Symbol: "Max", What: "value changed from 1 to 2", Break: true},
			{Symbol: "Pool", What: "old is comparable, new is not", Break: true},
			{Symbol: "Pool.Len", What: "removed", Break: true},
			{Symbol: "Run", What: "changed from func(int) to func(int64)", Break: true},
			{Symbol: "Source.Push", What: "added", Break: true},
		}},
		{"additions", old + "func More() {}\nfunc (p Pool) More() {}", []Change{{Symbol: "More", What: "added"}, {Symbol: "Pool.More", What: "added"}}},
	} {
		got, err := Compare(listing(t, old), []*Package{check(t, c.now)})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for i := range got {
			got[i].Package = ""
		}
		slices.SortFunc(got, func(a, b Change) int {
			if a.Symbol < b.Symbol {
				return -1
			}
			return 1
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	got, err := Compare(listing(t, old), nil)
	if want := []Change{{Package: "github.com/shoal-go/shoal/p", What: "package removed", Break: true}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("without the package: %v, %v", got, err)
	}
	gone := fstest.MapFS{"p.txt": {Data: []byte("package p\n\nimport x \"example.com/x\"\n\nfunc Run(n x.Number)\n")}}
	got, err = Compare(gone, []*Package{check(t, "package p\n\nfunc Run(n int) {}")})
	if err != nil || len(got) != 1 || got[0].Symbol != "Run" || !got[0].Break {
		t.Errorf("with an import that cannot be had: %v, %v", got, err)
	}
	got, err = Compare(fstest.MapFS{}, []*Package{check(t, old)})
	if want := []Change{{Package: "github.com/shoal-go/shoal/p", What: "package added"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("with a new package: %v, %v", got, err)
	}
}

func TestUnnamed(t *testing.T) {
	gone := Change{Package: "github.com/shoal-go/shoal", Symbol: "Pool.Len", Break: true}
	pkg := Change{Package: "github.com/shoal-go/shoal/compat/pond", Break: true}
	added := Change{Package: "github.com/shoal-go/shoal", Symbol: "Pool.More"}
	for notes, want := range map[string]int{
		"":                                       2,
		"- Pool.Len is gone, compat/pond too.\n": 2,
		"- Breaking: `Pool.Len` is `Pool.Queued`\n":                                1,
		"Breaking: Pool.Length is gone.\n":                                         2,
		"Breaking: MyPool.Len is gone.\n":                                          2,
		"- Breaking: shoal.Pool.Len, and the\n  whole of compat/pond, are gone.\n": 0,
		"- Breaking: much.\n- Pool.Len is gone.\n":                                 2,
	} {
		if got := Unnamed([]Change{gone, pkg, added}, notes); len(got) != want {
			t.Errorf("%q leaves %v, want %d", notes, got, want)
		}
	}
}
