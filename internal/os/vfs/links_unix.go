//go:build linux || darwin

package vfs

// countsLinks tells whether the file system counts the names of its files, all of them and at once:
// SMB and some FUSE file systems say that each file has one. Tests replace it.
var countsLinks = isLocal
