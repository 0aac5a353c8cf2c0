package queue

import (
	"sync/atomic"
	"unsafe"

	"github.com/shoal-go/shoal/internal/sy"
)

// This file is the only one that uses package unsafe. Reason: a queue cell
// must be one word, so that a task costs one atomic swap to publish and eight
// bytes to keep, with no allocation. A func value is one pointer, but Go has
// no atomic func; and a cell must also be able to hold a pointer to a record
// (a task with a context, a waiter, …). So a cell is an unsafe.Pointer that
// either is the func value's own pointer or points one byte into a record.
// Both keep what they point to alive: a pointer into an object counts as a
// pointer to it. Func values are pointer-aligned, so the low bit tells
// the two apart. Until Put, a cell may hold a pointer to a Taker.

// An Item is a task as it lies in a cell: a func(), or a pointer to a record.
// The zero Item is no task.
type Item struct{ p unsafe.Pointer }

// Func makes an Item of f, which must not be nil.
func Func(f func()) Item { return Item{*(*unsafe.Pointer)(unsafe.Pointer(&f))} }

// Record makes an Item of r, which must not be nil, and whose type must be
// larger than one byte.
func Record[T any](r *T) Item { return Item{unsafe.Add(unsafe.Pointer(r), 1)} }

// IsZero reports whether it is no task.
func (it Item) IsZero() bool { return it.p == nil }

// IsRecord reports whether it was made by [Record].
func (it Item) IsRecord() bool { return uintptr(it.p)&1 != 0 }

// Func is the func() that it was made of by [Func].
func (it Item) Func() func() { return *(*func())(unsafe.Pointer(&it.p)) }

// As is the pointer that it was made of by [Record]; T must be the same type.
func As[T any](it Item) *T { return (*T)(unsafe.Add(it.p, -1)) }

// A Cell is a place for one Item. It goes from empty to full once, by Put, and
// is emptied once, by its taker. A taker that came early may leave a [Taker] in
// the empty cell.
type Cell struct {
	o sy.Object // first: there it takes no memory
	p unsafe.Pointer
}

// Put publishes it. It returns the taker that has parked until then, or nil: the
// caller must wake it (two calls, so that both are inlined). Put pairs with the
// load in TryTake; being a read-modify-write, it also orders the publication
// before whatever the caller reads next, which the wake-up protocol relies on.
func (c *Cell) Put(it Item) (early *Taker) {
	sy.Access(&c.o, sy.Write)
	return (*Taker)(atomic.SwapPointer(&c.p, it.p))
}

// A Taker has parked until its cell is full.
type Taker struct{ door sy.Door }

// Wake lets t go on, once. A nil Taker is none.
func (t *Taker) Wake() {
	if t != nil {
		t.door.Open()
	}
}

// await parks until Put, and takes what it has put. The operating system has
// interrupted the putter's thread, perhaps for this one, which it had woken. A taker
// that went on yielding would keep the CPU from the putter until the next tick, up to
// 4 ms later. Either await sees what was put, or Put sees the Taker.
func (c *Cell) await() Item {
	t := new(Taker)
	t.door.Shut()
	sy.Access(&c.o, sy.Write)
	if atomic.CompareAndSwapPointer(&c.p, nil, unsafe.Pointer(t)) {
		sy.Reach("early")
		t.door.Wait()
	}
	return c.TryTake()
}

// Peek is what Put has put and was not taken yet, or the zero Item. The caller
// makes sure that it is not taken meanwhile.
func (c *Cell) Peek() Item {
	sy.Access(&c.o, sy.Read)
	return Item{atomic.LoadPointer(&c.p)}
}

// TryTake empties the cell, or returns the zero Item where Put has not come
// yet. One goroutine owns the taking side of a cell, so clearing it needs no
// atomic: no other goroutine looks at the cell any more.
func (c *Cell) TryTake() Item {
	sy.Access(&c.o, sy.Read)
	p := atomic.LoadPointer(&c.p)
	if p != nil {
		c.p = nil
	}
	return Item{p}
}
