// Package surroundings tests what lies around the database's files: the working
// directory, links, names, a directory that others rename, remove, replace or
// restore, descriptors that run out, forked children, slow disks, and
// directories made by somebody hostile.
//
// The package has no code of its own to call.
package surroundings
