//go:build !linux

package kvbench

func busyCores() float64 { return -1 }
