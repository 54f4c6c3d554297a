package lsm

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/options"
	"github.com/loamdb/loam/internal/base/preview"
)

func init() {
	preview.SetDefaultFormat = setDefaultFormat
	preview.HoldResources = func(r interface {
		Set(name, value string) error
	}) (release func(), err error) {
		c, err := r.(*Resources).inside().Cache()
		if err != nil {
			return nil, err
		}
		return c.Unref, nil
	}
}

// setDefaultFormat changes the row of the options table.
func setDefaultFormat(f base.Format) base.Format {
	row := &optionTable[slices.IndexFunc(optionTable, func(o options.Row[Options]) bool {
		return o.Name == "format"
	})]
	before := Format(row.Default)
	row.Default = int64(FormatLevelDB)
	if f == base.Native {
		row.Default = int64(FormatNative)
	}
	return before.dir()
}
