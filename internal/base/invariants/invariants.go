// Package invariants holds checks that cost nothing in normal builds and end
// the program in builds with the tag "invariants". It is safe for concurrent
// use.
package invariants
