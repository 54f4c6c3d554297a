// Package preview reaches what package lsm does and its API does not offer. Tests of this
// module use it.
package preview

import "github.com/loamdb/loam/internal/base"

// SetDefaultFormat is set by package lsm: it changes the format of new databases whose options name
// none, and returns the previous one. No database may be opening meanwhile.
var SetDefaultFormat func(base.Format) base.Format

// HoldResources is set by package lsm: it keeps the memory that lsm.Resources share until release.
var HoldResources func(r interface {
	Set(name, value string) error
}) (release func(), err error)
