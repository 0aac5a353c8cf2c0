// Package natstest has the tests of contrib/nats, with the servers that they need: one, or a
// cluster of three, in the process of the test.
package natstest
