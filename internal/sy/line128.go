//go:build arm64 || ppc64 || ppc64le || s390x

package sy

// CacheLine is the size of a cache line in bytes. That of s390x is twice as large.
const CacheLine = 128
