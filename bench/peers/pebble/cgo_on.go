//go:build cgo

package pebble

const cgo = true
