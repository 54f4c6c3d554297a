// Package arch holds the rules of the source tree as tests: which package may
// import which, how large files, functions and packages may grow, which calls
// and names are not used, that shipped code is used by shipped code, and that
// everything compiles on every system the engine supports. Each rule has a test
// that it fires on a planted offender.
//
// The package has no code of its own to call.
package arch
