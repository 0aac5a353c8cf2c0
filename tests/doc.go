// Package tests asks pools from outside what the documentation promises. It has tests
// only, most of which see no more of a pool than its users do:
//
//   - Tasks and capacity: admission, waiters, trygo, reserve.
//   - Life and time: life, time (in bubbles, whose clock stands still), hooks, alloc.
//   - Results: future, group, map, range, keyed, func, local.
//   - Sub-pools, growth, observation: sub, sizing, stats, watch, tracer, whose.
//   - What is inside, by package testpool: histogram, wrap (tickets that wrap).
//   - What broke in other pools: regressions, holes, seeds (docs/seeds.md); what readers of
//     the code found: review.
//   - Pairs of faults, random programs, load: faults, metamorphic, fuzz, torture.
//
// In helpers_test.go is what they share. Folder linear, a module of its own, checks
// histories for linearizability; folder models has the models of what is built on the
// kernel. The examples are in the root.
package tests
