package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// Functions that are called with the lock of the family and leave it. Those in maybe leave it if
// they return true.
var (
	leaves = []string{"Lane.waitForCapacity", "Lane.runInline", "Lane.leaveAndYield"}
	maybe  = []string{"Lane.displace"}
)

// held is the set of what the state of the lock may be at a place: free, taken, or both, as the
// flow of control tells.
type held uint8

const (
	free held = 1 << iota
	taken
)

// pairs says where the kernel enters with the lock held, leaves without, or returns with it.
func (c *code) pairs() (faults []string) {
	c.funcs(func(name string, d ast.Decl) {
		fd, ok := d.(*ast.FuncDecl)
		if !ok || fd.Body == nil || c.file(d.Pos()) == "gate.go" {
			return
		}
		p := &pairing{c: c, name: name, faults: &faults}
		begin := free
		if slices.Contains(leaves, name) || slices.Contains(maybe, name) {
			begin = taken
		}
		p.function(fd.Body, begin)
	})
	slices.Sort(faults)
	return slices.Compact(faults)
}

// A pairing follows one function.
type pairing struct {
	c      *code
	name   string
	faults *[]string
	loops  []*loop
	owes   bool // it leaves when it ends: that is deferred. What returns before has not entered
	uses   bool // it enters or leaves, so that what it returns with is looked at
}

// A loop is a statement that break, or continue, belongs to.
type loop struct {
	again     bool // continue does too
	brk, cont held
}

func (p *pairing) fault(pos token.Pos, what string) {
	at := p.c.fset.Position(pos)
	*p.faults = append(*p.faults, fmt.Sprintf("%s:%d: %s %s", p.c.file(pos), at.Line, p.name, what))
}

func (p *pairing) function(body *ast.BlockStmt, begin held) {
	ast.Inspect(body, func(n ast.Node) bool {
		if k, ok := n.(*ast.CallExpr); ok {
			p.uses = p.uses || slices.Contains([]string{"enter", "enterOpen", "leave"}, called(k))
		}
		_, lit := n.(*ast.FuncLit)
		return !lit
	})
	p.ends(body.End(), p.stmts(body.List, begin), "ends")
}

// ends says what is wrong if the function ends at pos.
func (p *pairing) ends(pos token.Pos, s held, how string) {
	switch {
	case p.owes && s&free != 0:
		p.fault(pos, how+" without the lock, and leaves it then")
	case !p.owes && s&taken != 0 && p.uses:
		p.fault(pos, how+" with the lock")
	}
}

// called is the name of what k calls.
func called(k *ast.CallExpr) string {
	switch f := k.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// expr follows the calls in n, in the order of the text. Functions in it are followed apart.
func (p *pairing) expr(n ast.Node, s held) held {
	if n == nil {
		return s
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			(&pairing{c: p.c, name: p.name, faults: p.faults}).function(n.Body, free)
			return false
		case *ast.CallExpr:
			switch name := called(n); {
			case name == "enter":
				if s&taken != 0 {
					p.fault(n.Pos(), "enters with the lock")
				}
				s = taken
			case name == "enterOpen":
				if s&taken != 0 {
					p.fault(n.Pos(), "enters with the lock")
				}
				s = taken // unless it returns false: see stmt
			case name == "leave":
				if s&free != 0 {
					p.fault(n.Pos(), "leaves without the lock")
				}
				s = free
			case name == "read" && s&taken != 0 && p.uses:
				p.fault(n.Pos(), "reads with the lock, which is no lock that nests")
			case slices.Contains(leaves, "Lane."+name):
				if s&free != 0 {
					p.fault(n.Pos(), "calls "+name+" without the lock")
				}
				s = free
			}
		}
		return true
	})
	return s
}

func (p *pairing) stmts(list []ast.Stmt, s held) held {
	for _, st := range list {
		if s == 0 {
			return 0 // control does not come here
		}
		s = p.stmt(st, s)
	}
	return s
}

func (p *pairing) stmt(st ast.Stmt, s held) held {
	switch st := st.(type) {
	case nil:
		return s
	case *ast.BlockStmt:
		return p.stmts(st.List, s)
	case *ast.LabeledStmt:
		return p.stmt(st.Stmt, s)
	case *ast.GoStmt:
		p.expr(st, free) // the functions in it
		return s
	case *ast.DeferStmt:
		if called(st.Call) != "leave" {
			p.expr(st, free) // the functions in it
		} else if p.owes = true; s&free != 0 {
			p.fault(st.Pos(), "defers leaving without the lock")
		}
		return s
	case *ast.ReturnStmt:
		s = p.expr(st, s)
		if !slices.Contains(maybe, p.name) {
			p.ends(st.Pos(), s, "returns")
		}
		return 0
	case *ast.BranchStmt:
		for i := len(p.loops) - 1; i >= 0; i-- {
			l := p.loops[i]
			if st.Tok == token.BREAK {
				l.brk |= s
				return 0
			}
			if st.Tok == token.CONTINUE && l.again {
				l.cont |= s
				return 0
			}
		}
		return 0
	case *ast.IfStmt:
		s = p.expr(st.Cond, p.stmt(st.Init, s))
		then := s
		if not, ok := st.Cond.(*ast.UnaryExpr); ok && not.Op == token.NOT {
			if k, ok := not.X.(*ast.CallExpr); ok && called(k) == "enterOpen" {
				then = free
			}
		}
		if k, ok := st.Cond.(*ast.CallExpr); ok && slices.Contains(maybe, "Lane."+called(k)) {
			then = free
		}
		return p.stmts(st.Body.List, then) | p.stmt(st.Else, s)
	case *ast.ForStmt:
		s = p.stmt(st.Init, s)
		return p.loop(s, st.Cond == nil, func(s held) held {
			if st.Cond != nil {
				s = p.expr(st.Cond, s)
			}
			return p.stmts(st.Body.List, s)
		})
	case *ast.RangeStmt:
		return p.loop(p.expr(st.X, s), false, func(s held) held { return p.stmts(st.Body.List, s) })
	case *ast.SwitchStmt:
		s = p.stmt(st.Init, s)
		if st.Tag != nil {
			s = p.expr(st.Tag, s)
		}
		return p.cases(st.Body, s)
	case *ast.TypeSwitchStmt:
		return p.cases(st.Body, p.stmt(st.Assign, p.stmt(st.Init, s)))
	case *ast.SelectStmt:
		return p.cases(st.Body, s)
	}
	return p.expr(st, s)
}

// loop follows a loop until nothing is new. A loop without an end is left by break only.
func (p *pairing) loop(s held, endless bool, body func(held) held) held {
	l := &loop{again: true}
	p.loops = append(p.loops, l)
	for {
		next := s | body(s) | l.cont
		if next == s {
			break
		}
		s = next
	}
	p.loops = p.loops[:len(p.loops)-1]
	if endless {
		return l.brk
	}
	return s | l.brk
}

func (p *pairing) cases(body *ast.BlockStmt, s held) held {
	l := &loop{}
	p.loops = append(p.loops, l)
	out, all := held(0), false
	for _, b := range body.List {
		switch b := b.(type) {
		case *ast.CaseClause:
			all = all || b.List == nil
			at := s
			for _, e := range b.List {
				at = p.expr(e, at)
			}
			out |= p.stmts(b.Body, at)
		case *ast.CommClause:
			all = true
			out |= p.stmts(b.Body, p.stmt(b.Comm, s))
		}
	}
	p.loops = p.loops[:len(p.loops)-1]
	if !all {
		out |= s
	}
	return out | l.brk
}
