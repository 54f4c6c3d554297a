//go:build !unix && !windows

package work

import (
	"errors"
	"os"
)

// duplicate fails: the system has no descriptors to share.
func duplicate(int) (*os.File, error) { return nil, errors.ErrUnsupported }
