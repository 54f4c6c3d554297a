//go:build !linux

package machine

func (e *Environment) system(string) {}

func resident() int64 { return -1 }
