package shoal

// A set is of things that come and go in bursts: once it is empty it lets go of the
// memory of many, which a map keeps. It is guarded by whatever guards what it is in.
type set[K comparable] struct {
	m    map[K]struct{}
	most int // in m since that was made
}

// keepMap is how many things a map may have had that is kept when it is empty.
const keepMap = 16

func (s *set[K]) add(k K) {
	if s.m == nil {
		s.m = make(map[K]struct{})
	}
	s.m[k] = struct{}{}
	s.most = max(s.most, len(s.m))
}

func (s *set[K]) remove(k K) {
	delete(s.m, k)
	if len(s.m) == 0 && s.most > keepMap {
		s.m, s.most = nil, 0
	}
}

func (s *set[K]) has(k K) bool {
	_, ok := s.m[k]
	return ok
}
