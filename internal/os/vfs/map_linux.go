package vfs

import "github.com/loamdb/loam/internal/os/filelock"

func isLocal(fd int) bool { return filelock.IsLocal(fd) }
