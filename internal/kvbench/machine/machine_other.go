//go:build !linux

package machine

func (e *Environment) system(string) {}
