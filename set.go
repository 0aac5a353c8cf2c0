package shoal

// A burstMap is a map for what comes and goes in bursts: once it is empty it lets go of
// the memory of many, which a map keeps. It is guarded by whatever guards what it is in.
type burstMap[K comparable, V any] struct {
	m    map[K]V
	most int // in m since that was made
}

func (b *burstMap[K, V]) put(k K, v V) {
	if b.m == nil {
		b.m = make(map[K]V)
	}
	b.m[k] = v
	b.most = max(b.most, len(b.m))
}

func (b *burstMap[K, V]) remove(k K) {
	delete(b.m, k)
	if len(b.m) == 0 && b.most > 16 {
		b.m, b.most = nil, 0
	}
}

// A set is a burstMap of things alone.
type set[K comparable] struct{ burstMap[K, struct{}] }

func (s *set[K]) add(k K) { s.put(k, struct{}{}) }

func (s *set[K]) has(k K) bool {
	_, ok := s.m[k]
	return ok
}
