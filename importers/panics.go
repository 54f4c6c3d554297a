package importers

import (
	"fmt"
	"runtime/debug"
)

// Guard returns the error of do, and one for a panic in it, as libraries raise at damaged data. It
// also takes reads of memory that is mapped behind the end of a file, on the goroutine of do.
func Guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading the source, which may be damaged: panic: %v", p)
		}
	}()
	return do()
}
