//go:build !unix

package fileid

import "io/fs"

// Of knows no IDs here.
func Of(fs.FileInfo) (id ID, ok bool) { return ID{}, false }

func ofOpen(any) (id ID, ok bool) { return ID{}, false }
