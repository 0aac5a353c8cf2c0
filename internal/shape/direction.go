package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// order is the files of the kernel from the bottom to the top. A file calls what is below it.
var order = []string{
	"errors.go", "word.go", "line.go", "account.go", "lane.go", "crew.go", "wait.go", "gate.go",
	"reserve.go", "sample.go", "quiet.go", "keep.go", "take.go", "record.go", "delay.go", "run.go", "pace.go", "submit.go", "life.go",
	"worker.go", "snapshot.go", "audit.go", "audit_off.go",
}

// upward are the calls that go up nevertheless: by the file of the caller and what is called, why.
var upward = map[string]string{
	// The gate is where everything that must hold is restored: it asks each client for its part.
	"gate.go Lane.settleQuiet":       "the exit looks for quiescence",
	"gate.go Lane.grantReservations": "the exit gives free places to those who wait for some",
	"gate.go Lane.compact":           "the exit frees the cells of tombstones",
	"gate.go Lane.accept":            "the exit admits the first waiter",
	"gate.go Crew.wakeSamplers":      "the exit wakes what rests with the workers",
	"gate.go Crew.check":             "models look at the state at each exit",
	"gate.go Worker.resume":          "a deed",

	// Below the gate, deeds are noted and lanes are marked.
	"wait.go Crew.touch":     "marks a lane for the exit",
	"lane.go Crew.touch":     "marks a lane for the exit",
	"crew.go Crew.wakeLater": "notes a deed for the exit",
	"crew.go Lane.set":       "the timer of idle workers is an alarm of the root",
	"crew.go Worker.loop":    "handed in: what a new worker runs",

	// The goroutine that claims a task runs it.
	"record.go Lane.runHere":   "inline join",
	"record.go Lane.enterFrom": "inline join",
	"record.go Lane.exitTo":    "inline join",
	"quiet.go Lane.finish":     "a quiet lane that accepts no more ends",
}

// A call is a mention of a function or method of the package outside its file: one that is handed
// on counts too. Calls through interfaces do not.
type call struct {
	pos            token.Position
	from, to       string // files
	caller, callee string
}

func (c *code) calls() (calls []call) {
	c.funcs(func(name string, d ast.Decl) {
		from := c.file(d.Pos())
		ast.Inspect(d, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			fn, ok := c.info.Uses[id].(*types.Func)
			if !ok || fn.Pkg() != c.pkg {
				return true
			}
			if recv := fn.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
				return true
			}
			if to := c.file(fn.Origin().Pos()); to != from {
				calls = append(calls, call{c.fset.Position(id.Pos()), from, to, name, nameOf(fn.Origin())})
			}
			return true
		})
	})
	return calls
}

// funcs calls f for each declaration of c, with the name of the function, or else "".
func (c *code) funcs(f func(name string, d ast.Decl)) {
	for _, file := range c.files {
		for _, d := range file.Decls {
			name := ""
			if fd, ok := d.(*ast.FuncDecl); ok {
				name = nameOf(c.info.Defs[fd.Name].(*types.Func))
			}
			f(name, d)
		}
	}
}

// nameOf is the name of fn, with its receiver: Lane.Submit.
func nameOf(fn *types.Func) string {
	recv := fn.Signature().Recv()
	if recv == nil {
		return fn.Name()
	}
	t := recv.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name() + "." + fn.Name()
	}
	return fn.Name()
}

// directions says which calls go up, and which rows of upward are not needed.
func (c *code) directions() (faults []string) {
	used := map[string]bool{}
	for _, k := range c.calls() {
		from, to := slices.Index(order, k.from), slices.Index(order, k.to)
		if from < 0 || to < 0 {
			faults = append(faults, fmt.Sprintf("%s calls %s of %s: one of the files has no place in the order", k.from, k.callee, k.to))
			continue
		}
		if to < from {
			continue
		}
		key := k.from + " " + k.callee
		if upward[key] == "" {
			faults = append(faults, fmt.Sprintf("%s:%d: %s calls %s, up in %s", k.from, k.pos.Line, k.caller, k.callee, k.to))
		}
		used[key] = true
	}
	for key := range upward {
		if !used[key] {
			faults = append(faults, fmt.Sprintf("the list of upward calls has %q, which nobody needs", key))
		}
	}
	slices.Sort(faults)
	return slices.Compact(faults)
}

// owned says which files may write a field. For other fields their comments say what writes them.
var owned = map[string]string{
	"line.tail":       "line account",
	"line.head":       "line account take",
	"account.granted": "account",
	"Crew.mu":         "gate",
	"Crew.wake":       "gate crew",
	"Crew.solo":       "gate lane",
	"Crew.urgent":     "gate",
	"Crew.live":       "crew",
	"Crew.departing":  "crew",
	"life.phase":      "life",
	"life.ended":      "life",
}

// A write is a place where a field is changed, or its address is taken.
type write struct {
	pos   token.Position
	file  string
	fn    string
	field string // Type.field
}

// changes are the methods that change what they are called on.
var changes = []string{"Store", "Add", "Or", "And", "CompareAndSwap", "Swap", "Lock", "Unlock", "remove", "PushBack", "Remove"}

func (c *code) writes() (writes []write) {
	owners := map[*types.Var]string{}
	scope := c.pkg.Scope()
	for _, name := range scope.Names() {
		if s, ok := scope.Lookup(name).Type().Underlying().(*types.Struct); ok && !scope.Lookup(name).(*types.TypeName).IsAlias() {
			for f := range s.Fields() {
				owners[f] = name
			}
		}
	}
	c.funcs(func(name string, d ast.Decl) {
		// target notes that e is changed: the field at its end, and those that it is part of.
		target := func(e ast.Expr) {
			for {
				switch x := e.(type) {
				case *ast.ParenExpr:
					e = x.X
				case *ast.IndexExpr:
					e = x.X
				case *ast.SelectorExpr:
					s := c.info.Selections[x]
					if s == nil || s.Kind() != types.FieldVal {
						return
					}
					v := s.Obj().(*types.Var)
					writes = append(writes, write{c.fset.Position(x.Pos()), c.file(x.Pos()), name, owners[v.Origin()] + "." + v.Name()})
					if _, pointer := c.info.TypeOf(x.X).Underlying().(*types.Pointer); pointer {
						return
					}
					e = x.X
				default:
					return
				}
			}
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, l := range n.Lhs {
					target(l)
				}
			case *ast.IncDecStmt:
				target(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					target(n.X)
				}
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				if ok && types.ExprString(s.X) == "sy" && strings.HasPrefix(s.Sel.Name, "Peek") { // it reads what is at an address
					return false
				}
				if ok && slices.Contains(changes, s.Sel.Name) {
					target(s.X)
				}
				if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "delete" {
					target(n.Args[0])
				}
			}
			return true
		})
	})
	return writes
}

// ownership says which fields of owned are written elsewhere, and which entries are not needed.
func (c *code) ownership() (faults []string) {
	used := map[string]bool{}
	for _, w := range c.writes() {
		files, ok := owned[w.field]
		if !ok {
			continue
		}
		file := strings.TrimSuffix(w.file, ".go")
		if file == "audit" { // it takes addresses, to read
			continue
		}
		used[w.field+" "+file] = true
		if !slices.Contains(strings.Fields(files), file) {
			faults = append(faults, fmt.Sprintf("%s:%d: %s writes %s", w.file, w.pos.Line, w.fn, w.field))
		}
	}
	for field, files := range owned {
		for _, file := range strings.Fields(files) {
			if !used[field+" "+file] {
				faults = append(faults, fmt.Sprintf("%s.go does not write %s", file, field))
			}
		}
	}
	slices.Sort(faults)
	return faults
}
