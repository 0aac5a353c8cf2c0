package api

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// List writes what a package exports as Go declarations without bodies, values and
// comments. What users cannot name is in it where an exported declaration needs it:
// an unexported type that one refers to, and, for what a struct with unexported
// fields can be used for, a blank field.
func List(pkg *types.Package) ([]byte, error) {
	l := &lister{pkg: pkg, imports: map[string]*types.Package{}, hidden: map[*types.TypeName]bool{}}
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		if ast.IsExported(name) {
			l.object(scope.Lookup(name))
		}
	}
	for wrote := map[*types.TypeName]bool{}; len(wrote) < len(l.hidden); {
		for _, t := range slices.SortedFunc(maps.Keys(l.hidden), func(a, b *types.TypeName) int { return cmp.Compare(a.Name(), b.Name()) }) {
			if !wrote[t] {
				wrote[t] = true
				l.object(t)
			}
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "package %s // import %q\n\n", pkg.Name(), pkg.Path())
	for _, path := range slices.Sorted(maps.Keys(l.imports)) {
		fmt.Fprintf(&out, "import %s %q\n", l.imports[path].Name(), path)
	}
	out.Write(l.out.Bytes())
	return format.Source(out.Bytes())
}

type lister struct {
	pkg     *types.Package
	out     bytes.Buffer
	imports map[string]*types.Package
	hidden  map[*types.TypeName]bool // unexported types that were referred to
}

func (l *lister) printf(format string, args ...any) { fmt.Fprintf(&l.out, format, args...) }

func (l *lister) qualify(p *types.Package) string {
	if p == l.pkg {
		return ""
	}
	l.imports[p.Path()] = p
	return p.Name()
}

// typ returns t as Go writes it.
func (l *lister) typ(t types.Type) string {
	l.note(t)
	return types.TypeString(t, l.qualify)
}

// note remembers the unexported types of the package that t is written with.
func (l *lister) note(t types.Type) {
	name := func(n *types.TypeName, args *types.TypeList) {
		if n.Pkg() == l.pkg && !n.Exported() {
			l.hidden[n] = true
		}
		for a := range args.Types() {
			l.note(a)
		}
	}
	switch t := t.(type) {
	case *types.Alias:
		name(t.Obj(), t.TypeArgs())
	case *types.Named:
		name(t.Obj(), t.TypeArgs())
	case interface{ Elem() types.Type }: // of a pointer, slice, array, map or channel
		l.note(t.Elem())
		if m, ok := t.(*types.Map); ok {
			l.note(m.Key())
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			l.note(v.Type())
		}
		for v := range t.Results().Variables() {
			l.note(v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			l.note(f.Type())
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			l.note(m.Type())
		}
		for e := range t.EmbeddedTypes() {
			l.note(e)
		}
	case *types.Union:
		for term := range t.Terms() {
			l.note(term.Type())
		}
	}
}

func (l *lister) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		typ := ""
		if b, ok := o.Type().(*types.Basic); !ok || b.Info()&types.IsUntyped == 0 {
			typ = l.typ(o.Type())
		}
		l.printf("\nconst %s %s = %s\n", o.Name(), typ, o.Val().ExactString())
	case *types.Var:
		l.printf("\nvar %s %s\n", o.Name(), l.typ(o.Type()))
	case *types.Func:
		l.printf("\nfunc %s%s\n", o.Name(), l.signature(o.Signature()))
	case *types.TypeName:
		l.typeName(o)
	}
}

// signature returns type parameters, parameters and results.
func (l *lister) signature(s *types.Signature) string {
	return l.typeParams(s.TypeParams()) + strings.TrimPrefix(l.typ(types.NewSignatureType(nil, nil, nil, s.Params(), s.Results(), s.Variadic())), "func")
}

func (l *lister) typeParams(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var params []string
	for p := range list.TypeParams() {
		params = append(params, p.Obj().Name()+" "+l.typ(p.Constraint()))
	}
	return "[" + strings.Join(params, ", ") + "]"
}

func (l *lister) typeName(o *types.TypeName) {
	if alias, ok := o.Type().(*types.Alias); ok {
		l.printf("\ntype %s%s = %s\n", o.Name(), l.typeParams(alias.TypeParams()), l.typ(alias.Rhs()))
		return
	}
	named := o.Type().(*types.Named)
	l.printf("\ntype %s%s ", o.Name(), l.typeParams(named.TypeParams()))
	switch u := named.Underlying().(type) {
	case *types.Struct:
		l.structure(u)
	case *types.Interface:
		l.iface(o.Name(), u)
	default:
		l.printf("%s\n", l.typ(u))
	}
	if types.IsInterface(named) {
		return
	}
	var methods []*types.Func
	for m := range named.Methods() {
		if m.Exported() {
			methods = append(methods, m)
		}
	}
	slices.SortFunc(methods, func(a, b *types.Func) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, m := range methods {
		recv := o.Name()
		if _, ok := m.Signature().Recv().Type().(*types.Pointer); ok {
			recv = "*" + recv
		}
		if n := named.TypeParams().Len(); n > 0 {
			var names []string
			for p := range m.Signature().RecvTypeParams().TypeParams() {
				names = append(names, p.Obj().Name())
			}
			recv += "[" + strings.Join(names, ", ") + "]"
		}
		l.printf("func (%s) %s%s\n", recv, m.Name(), l.signature(m.Signature()))
	}
}

func (l *lister) structure(s *types.Struct) {
	l.printf("struct {\n")
	hidden, comparable := false, true
	for i := range s.NumFields() {
		f := s.Field(i)
		if !f.Exported() && !(f.Embedded() && promotes(f.Type())) {
			hidden = true
			comparable = comparable && types.Comparable(f.Type())
			continue
		}
		if !f.Embedded() {
			l.printf("%s ", f.Name())
		}
		l.printf("%s", l.typ(f.Type()))
		if tag := s.Tag(i); tag != "" {
			l.printf(" %q", tag)
		}
		l.printf("\n")
	}
	switch {
	case hidden && comparable:
		l.printf("_ int // unexported fields\n")
	case hidden:
		l.printf("_ []int // unexported fields\n")
	}
	l.printf("}\n")
}

// promotes reports whether what embeds a t has exported fields or methods by it.
func promotes(t types.Type) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if m.Obj().Exported() {
			return true
		}
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range s.Fields() {
		if f.Exported() || f.Embedded() && promotes(f.Type()) {
			return true
		}
	}
	return false
}

func (l *lister) iface(name string, t *types.Interface) {
	l.printf("interface {\n")
	hidden := false
	for e := range t.EmbeddedTypes() {
		l.printf("%s\n", l.typ(e))
	}
	for m := range t.ExplicitMethods() {
		if m.Exported() {
			l.printf("%s%s\n", m.Name(), l.signature(m.Signature()))
		} else {
			hidden = true
		}
	}
	if hidden {
		l.printf("unexported%s() // others cannot implement it\n", name)
	}
	l.printf("}\n")
}

// Parse reads a listing of pkg. A package that it imports and that cannot be had any
// more is an empty one: what the listing says of it is then no valid type, and so a
// change.
func Parse(name string, listing []byte, pkg *Package) (*types.Package, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, listing, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	gone := false
	from := importFunc(func(path string) (*types.Package, error) {
		imported, err := pkg.Importer.Import(path)
		if err != nil {
			gone = true
			imported = types.NewPackage(path, "gone")
			imported.MarkComplete()
		}
		return imported, nil
	})
	var failed error
	conf := types.Config{IgnoreFuncBodies: true, Importer: from, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) && !e.Soft && failed == nil { // a generic function without a body is a soft error
			failed = err
		}
	}}
	old, _ := conf.Check(pkg.Path(), fset, []*ast.File{f}, nil)
	if gone {
		failed = nil
	}
	return old, failed
}

type importFunc func(path string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }
