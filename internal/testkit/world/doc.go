// Package world runs random histories of every exported operation of lsm, lsm/backup and
// lsm/dump against one model: several keyspaces with
// comparers of four kinds, both formats, copies of every kind that are opened, compared with the
// model and lived in, clean and unclean endings, lost files that are repaired, clocks that jump.
// Faults of one feature have tests beside it; a history finds those between two features.
//
// A history is a seed and a list of steps. Each step draws from a seed of its own, so that a
// failing history can be shrunk by leaving steps out: see Run. One goroutine takes its
// steps; Beside runs several histories at once in one database.
package world
