//go:build !linux

package kvbench

func (e *Environment) system(string) {}
