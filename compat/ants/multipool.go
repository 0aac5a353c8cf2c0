package ants

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A LoadBalancingStrategy is how a multi-pool chooses a pool.
type LoadBalancingStrategy int

const (
	// RoundRobin takes one pool after the other; the one with the fewest workers
	// if that is full.
	RoundRobin LoadBalancingStrategy = 1 << (iota + 1)
	// LeastTasks takes the pool with the fewest workers running.
	LeastTasks
)

// pooler is what the pools of a multi-pool have in common.
type pooler interface {
	Running() int
	Free() int
	Waiting() int
	Cap() int
	Tune(size int)
	Release()
	ReleaseContext(ctx context.Context) error
	Reboot()
}

// multi is what all kinds of multi-pools have.
type multi[P pooler] struct {
	pools  []P
	next   atomic.Uint32
	lbs    LoadBalancingStrategy
	closed atomic.Bool

	reboot sync.Mutex // so that one Reboot at a time opens the pools
}

func newMulti[P pooler](size int, lbs LoadBalancingStrategy, one func() (P, error)) (*multi[P], error) {
	switch {
	case size <= 0:
		return nil, ErrInvalidMultiPoolSize
	case lbs != RoundRobin && lbs != LeastTasks:
		return nil, ErrInvalidLoadBalancingStrategy
	}
	m := &multi[P]{lbs: lbs}
	for range size {
		p, err := one()
		if err != nil {
			for _, p := range m.pools {
				p.Release()
			}
			return nil, err
		}
		m.pools = append(m.pools, p)
	}
	return m, nil
}

// submit submits to a pool of the strategy's choice.
func (m *multi[P]) submit(to func(P) error) error {
	if m.IsClosed() {
		return ErrPoolClosed
	}
	if m.lbs == RoundRobin {
		n := m.next.Add(1) - 1
		if err := to(m.pools[n%uint32(len(m.pools))]); err != ErrPoolOverload {
			return err
		}
	}
	return to(m.least())
}

// least is the pool with the fewest workers running.
func (m *multi[P]) least() (least P) {
	fewest := math.MaxInt
	for _, p := range m.pools {
		if n := p.Running(); n < fewest {
			least, fewest = p, n
		}
	}
	return least
}

func (m *multi[P]) sum(of func(P) int) (n int) {
	for _, p := range m.pools {
		n += of(p)
	}
	return n
}

func (m *multi[P]) byIndex(idx int, of func(P) int) (int, error) {
	if idx < 0 || idx >= len(m.pools) {
		return -1, ErrInvalidPoolIndex
	}
	return of(m.pools[idx]), nil
}

// Running is the number of workers of all pools.
func (m *multi[P]) Running() int { return m.sum(P.Running) }

// RunningByIndex is the number of workers of pool idx. The error is
// [ErrInvalidPoolIndex].
func (m *multi[P]) RunningByIndex(idx int) (int, error) { return m.byIndex(idx, P.Running) }

// Free is how many more workers all pools may have.
func (m *multi[P]) Free() int { return m.sum(P.Free) }

// FreeByIndex is how many more workers pool idx may have. The error is
// [ErrInvalidPoolIndex].
func (m *multi[P]) FreeByIndex(idx int) (int, error) { return m.byIndex(idx, P.Free) }

// Waiting is the number of submitters that wait for any of the pools.
func (m *multi[P]) Waiting() int { return m.sum(P.Waiting) }

// WaitingByIndex is the number of submitters that wait for pool idx. The error is
// [ErrInvalidPoolIndex].
func (m *multi[P]) WaitingByIndex(idx int) (int, error) { return m.byIndex(idx, P.Waiting) }

// Cap is the size of all pools.
func (m *multi[P]) Cap() int { return m.sum(P.Cap) }

// Tune changes the size of each pool.
func (m *multi[P]) Tune(size int) {
	for _, p := range m.pools {
		p.Tune(size)
	}
}

// IsClosed reports whether the multi-pool has been released.
func (m *multi[P]) IsClosed() bool { return m.closed.Load() }

// ReleaseTimeout closes all pools and waits until no worker is left, for timeout
// at most.
func (m *multi[P]) ReleaseTimeout(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.ReleaseContext(ctx)
}

// ReleaseContext closes all pools and waits until no worker is left or ctx ends.
// The error names the pools that have workers.
func (m *multi[P]) ReleaseContext(ctx context.Context) error {
	if m.closed.Swap(true) {
		return ErrPoolClosed
	}
	waits := make([]chan error, len(m.pools))
	for i, p := range m.pools {
		waits[i] = make(chan error, 1)
		go func() { waits[i] <- p.ReleaseContext(ctx) }()
	}
	var all releaseError
	for i := range waits {
		if err := <-waits[i]; err != nil {
			all = append(all, fmt.Errorf("pool %d: %w", i, err))
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// Reboot opens the pools again. If another Reboot does, it returns at once, as in ants.
func (m *multi[P]) Reboot() {
	if !m.reboot.TryLock() { // tasks of two pools that call it would wait for each other
		return
	}
	defer m.reboot.Unlock()
	if !m.closed.Load() {
		return
	}
	for _, p := range m.pools {
		p.Reboot()
	}
	m.next.Store(1) // as in ants
	m.closed.Store(false)
}

// A releaseError is the errors of some pools.
type releaseError []error

func (e releaseError) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, " | ")
}

func (e releaseError) Unwrap() []error { return e }

// A MultiPool is several pools. It is made by [NewMultiPool].
type MultiPool struct{ *multi[*Pool] }

// NewMultiPool makes size pools of sizePerPool workers each.
func NewMultiPool(size, sizePerPool int, lbs LoadBalancingStrategy, options ...Option) (*MultiPool, error) {
	m, err := newMulti(size, lbs, func() (*Pool, error) { return NewPool(sizePerPool, options...) })
	if err != nil {
		return nil, err
	}
	return &MultiPool{m}, nil
}

// Submit is [Pool.Submit] to one of the pools.
func (m *MultiPool) Submit(task func()) error {
	return m.submit(func(p *Pool) error { return p.Submit(task) })
}

// A MultiPoolWithFunc is several pools with a function. It is made by
// [NewMultiPoolWithFunc].
type MultiPoolWithFunc struct{ *multi[*PoolWithFunc] }

// NewMultiPoolWithFunc makes size pools of sizePerPool workers each, that call fn.
func NewMultiPoolWithFunc(size, sizePerPool int, fn func(any), lbs LoadBalancingStrategy, options ...Option) (*MultiPoolWithFunc, error) {
	m, err := newMulti(size, lbs, func() (*PoolWithFunc, error) { return NewPoolWithFunc(sizePerPool, fn, options...) })
	if err != nil {
		return nil, err
	}
	return &MultiPoolWithFunc{m}, nil
}

// Invoke is [PoolWithFunc.Invoke] of one of the pools.
func (m *MultiPoolWithFunc) Invoke(args any) error {
	return m.submit(func(p *PoolWithFunc) error { return p.Invoke(args) })
}

// A MultiPoolWithFuncGeneric is several pools with a function. It is made by
// [NewMultiPoolWithFuncGeneric].
type MultiPoolWithFuncGeneric[T any] struct {
	*multi[*PoolWithFuncGeneric[T]]
}

// NewMultiPoolWithFuncGeneric makes size pools of sizePerPool workers each, that
// call fn.
func NewMultiPoolWithFuncGeneric[T any](size, sizePerPool int, fn func(T), lbs LoadBalancingStrategy, options ...Option) (*MultiPoolWithFuncGeneric[T], error) {
	m, err := newMulti(size, lbs, func() (*PoolWithFuncGeneric[T], error) {
		return NewPoolWithFuncGeneric(sizePerPool, fn, options...)
	})
	if err != nil {
		return nil, err
	}
	return &MultiPoolWithFuncGeneric[T]{m}, nil
}

// Invoke is [PoolWithFuncGeneric.Invoke] of one of the pools.
func (m *MultiPoolWithFuncGeneric[T]) Invoke(args T) error {
	return m.submit(func(p *PoolWithFuncGeneric[T]) error { return p.Invoke(args) })
}
