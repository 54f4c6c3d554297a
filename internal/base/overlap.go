package base

import (
	"bytes"
	"slices"
	"unsafe"
)

// Overlap reports whether two slices share memory.
func Overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p := uintptr(unsafe.Pointer(unsafe.SliceData(a)))
	q := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// Apart copies key if it lies in b, which is about to be given up.
func Apart(key, b []byte) []byte {
	if Overlap(key, b) {
		return bytes.Clone(key)
	}
	return key
}

// Reusable is b without its contents, or nil if one of the keys lies in it.
func Reusable(b []byte, keys [][]byte) []byte {
	if slices.ContainsFunc(keys, func(key []byte) bool { return Overlap(key, b) }) {
		return nil
	}
	return b[:0]
}
