// Command cabi is Loam as a C library: built with -buildmode=c-shared it is
// libloam.so, whose interface is loam.h.
//
// The public functions are C (shim.c, batch.c, iter.c): they check arguments, keep batches and
// blocks of entries in C memory, and cross into Go once per operation or block. The exported Go
// functions (loamgo_*) are hidden by the version script. Handles are indexes with kind and
// generation, in one table for Go's objects (internal/handles) and one for C's (slots.c).
// Everything here is safe for concurrent use as loam.h says.
//
// Without cgo this is an empty program, so that the module builds as a whole.
package main

func main() {}
