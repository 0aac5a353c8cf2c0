// Package models has the models that make explore runs beside those of the kernel: small programs
// around a pool and what is built on it, each under every schedule (see package explore), or, where
// those are too many, under all with a bounded number of preemptions. They need the build tag
// poolsim.
package models
