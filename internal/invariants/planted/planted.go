// Package planted lets known bugs be switched on in builds with the tag
// "planted", one at a time, to prove that the tests find them. In other builds
// Bug is constant and costs nothing.
//
// Everything here is safe for concurrent use.
package planted

// Env names the bug to switch on, in builds with the tag.
const Env = "LOAM_BUG"
