package lsm

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/engine"
	"github.com/loamdb/loam/internal/options"
	"github.com/loamdb/loam/internal/preview"
	"github.com/loamdb/loam/internal/tree"
)

func init() {
	preview.SetDefaultFormat = setDefaultFormat
	engine.Of = func(db any) *engine.DB { return db.(*DB).engine }
	engine.SnapshotOf = func(s any) *tree.Snapshot { return s.(*Snapshot).at }
}

// setDefaultFormat changes the row of the options table.
func setDefaultFormat(f base.Format) base.Format {
	row := &optionTable[slices.IndexFunc(optionTable, func(o options.Row[Options]) bool { return o.Name == "format" })]
	before := Format(row.Default)
	row.Default = int64(FormatLevelDB)
	if f == base.Native {
		row.Default = int64(FormatNative)
	}
	return before.dir()
}
