module github.com/shoal-go/shoal/tests/linear

go 1.26

require github.com/shoal-go/shoal v0.1.0

require github.com/anishathalye/porcupine v1.3.1
