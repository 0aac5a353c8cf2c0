package bench

import (
	"go/importer"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// TestFacadesHaveTheWholeAPI compares what the originals export, in the versions
// that this module requires, with what the facades do: names, kinds, types, methods,
// fields. A name that is added upstream shows as a gap.
func TestFacadesHaveTheWholeAPI(t *testing.T) {
	imp := importer.ForCompiler(token.NewFileSet(), "source", nil)
	for original, facade := range map[string]string{
		"github.com/alitto/pond":          "github.com/shoal-go/shoal/compat/pond",
		"github.com/panjf2000/ants/v2":    "github.com/shoal-go/shoal/compat/ants",
		"github.com/gammazero/workerpool": "github.com/shoal-go/shoal/compat/workerpool",
	} {
		want, got := exports(t, imp, original), exports(t, imp, facade)
		if len(want) < 15 {
			t.Errorf("%s: only %d names", original, len(want))
		}
		for name, of := range want {
			if got[name] != of {
				t.Errorf("%s: %s is %q, in the facade %q", original, name, of, got[name])
			}
		}
	}
}

// exports is what a package exports, with its types without parameters' names.
func exports(t *testing.T, imp types.Importer, path string) map[string]string {
	t.Helper()
	pkg, err := imp.Import(path)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	text := func(typ types.Type) string { return typeText(typ, pkg) }
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Const:
			all[name] = "const " + o.Val().String()
		case *types.TypeName:
			all[name] = "type"
			for m := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
				if m.Obj().Exported() {
					all[name+"."+m.Obj().Name()] = text(m.Type())
				}
			}
			switch u := o.Type().Underlying().(type) {
			case *types.Struct:
				for f := range u.Fields() {
					if f.Exported() && !f.Embedded() {
						all[name+"."+f.Name()] = text(f.Type())
					}
				}
			case *types.Interface:
				for m := range u.Methods() {
					all[name+"."+m.Name()] = text(m.Type())
				}
			}
		default:
			all[name] = text(o.Type())
		}
	}
	return all
}

// typeText is the type's text, the same for the same type of either package.
func typeText(typ types.Type, pkg *types.Package) string {
	if s, ok := typ.(*types.Signature); ok {
		var b strings.Builder
		tuple := func(t *types.Tuple) {
			b.WriteString("(")
			for v := range t.Variables() {
				b.WriteString(typeText(v.Type(), pkg) + ",")
			}
			b.WriteString(")")
		}
		tuple(s.Params())
		tuple(s.Results())
		return b.String()
	}
	s := types.TypeString(typ, func(p *types.Package) string {
		if p == pkg {
			return ""
		}
		return p.Path()
	})
	return strings.ReplaceAll(s, "interface{}", "any")
}
