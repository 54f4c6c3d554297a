//go:build !unix

package kill

import "errors"

func limitFiles(limit uint64) error {
	if limit == 0 {
		return nil
	}
	return errors.ErrUnsupported
}
