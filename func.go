package shoal

import "sync"

// A Func runs one function on a pool for many values. f.Submit(v) does what
// p.Submit(func() { f(v) }) does, without a closure for each v. It is made by
// [NewFunc], and any number of goroutines may use it.
type Func[T any] struct {
	p    *Pool
	f    func(T)
	free sync.Pool // of *funcTask[T] that are not in use
}

// A funcTask holds a value until f has it. It is used again.
type funcTask[T any] struct {
	of  *Func[T]
	v   T
	run func() // its method, made once
}

// NewFunc makes a Func that calls f on p.
func NewFunc[T any](p *Pool, f func(T)) *Func[T] { return &Func[T]{p: p, f: f} }

// Submit submits a call of f with v. It follows the rules of [Pool.Submit] and
// returns its errors; a nil f is [ErrNilTask], a nil pool [ErrClosed]. It
// allocates only to grow its free list, which the garbage collector may shrink.
func (f *Func[T]) Submit(v T) error { return f.submit(v, (*Pool).Submit) }

// TrySubmit is Submit by the rules of [Pool.TrySubmit]: it never waits.
func (f *Func[T]) TrySubmit(v T) error { return f.submit(v, (*Pool).TrySubmit) }

func (f *Func[T]) submit(v T, by func(*Pool, func()) error) error {
	switch {
	case f.f == nil:
		return ErrNilTask
	case f.p == nil:
		return ErrClosed
	}
	t, _ := f.free.Get().(*funcTask[T])
	if t == nil {
		t = &funcTask[T]{of: f}
		t.run = t.call
	}
	t.v = v
	err := by(f.p, t.run)
	if err != nil {
		t.take()
	}
	return err
}

func (t *funcTask[T]) call() { t.of.f(t.take()) }

// take takes the value out, and gives t back.
func (t *funcTask[T]) take() T {
	var none T
	v := t.v
	t.v = none
	t.of.free.Put(t)
	return v
}
