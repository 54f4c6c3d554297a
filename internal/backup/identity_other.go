//go:build !unix

package backup

import "io/fs"

// identify knows no identities here: all tables are read.
func identify(fs.FileInfo) identity { return identity{} }
