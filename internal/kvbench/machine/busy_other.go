//go:build !linux

package machine

// BusyCores is not known here.
func BusyCores() float64 { return -1 }
