//go:build !(arm64 || ppc64 || ppc64le || s390x)

package sy

// CacheLine is the size of a cache line in bytes.
const CacheLine = 64
