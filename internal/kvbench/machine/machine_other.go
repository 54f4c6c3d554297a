//go:build !linux

package machine

func (e *Environment) system(string) {}

func resident() int64 { return -1 }

func pages() (Pages, bool) { return Pages{}, false }

func countedPeak() (int64, bool) { return 0, false }

func resetPeak() bool { return false }
