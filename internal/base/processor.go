//go:build 386 || arm || mips || mipsle

package base

// Memory off the Go heap lies at addresses above 32 bits, and files are mapped whole.
const _ = Loam_needs_a_64_bit_processor
