package natstest_test

import (
	"net"
	"testing"
)

// freePorts are addresses of the loopback that nobody listens at.
func freePorts(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // together, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}
