package sy

// A Pad keeps what is before it and what is after it on cache lines of their own, wherever it is in
// memory. It is as large as a line, as the pads of Go's runtime are.
type Pad struct{ _ [CacheLine]byte }
