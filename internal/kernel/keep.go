package kernel

import "github.com/shoal-go/shoal/internal/sy"

// A Keep is what clients keep on a goroutine that runs tasks, until it leaves: on a worker or, for one
// task, on a goroutine that runs it inline. Any goroutine may use it.
type Keep struct {
	ID    int         // of the worker; -1: it is none
	mu    sy.Mutex    // guards what follows
	all   map[any]any // by key
	close []func()    // to be called when it leaves, in the order of Opened
	left  bool
}

// Of is what is kept for key: what made returned for it. It is nil if the goroutine has left.
func (k *Keep) Of(key any, made func() any) any {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all[key] == nil && !k.left {
		if k.all == nil {
			k.all = map[any]any{}
		}
		k.all[key] = made()
	}
	return k.all[key]
}

// Opened makes the goroutine call shut when it leaves. It returns false if it has left.
func (k *Keep) Opened(shut func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.left {
		k.close = append(k.close, shut)
	}
	return !k.left
}

// closeAll closes what was opened, the latest first, also if one of the functions ends the goroutine.
func (k *Keep) closeAll() {
	k.mu.Lock()
	all := k.close
	k.left, k.all, k.close = true, nil, nil
	k.mu.Unlock()
	for _, shut := range all {
		defer shut()
	}
}
