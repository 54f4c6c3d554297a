//go:build !cgo

package engines

var sqlite []Engine
