// Package mutants proves that the large tests find what they are for: each of
// a list of known bugs, planted in the engine behind the build tag "planted",
// must make the test named beside it fail within a minute.
//
// The package has no code of its own to call.
package mutants
