//go:build amd64 || arm64

package stk

// Call calls f with Room bytes of stack below it, until f returns. Panics pass
// through.
//
//go:noescape
func Call(f func())
