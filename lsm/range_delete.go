package lsm

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/preview"
)

func init() {
	preview.DeleteRange = func(batch any, start, limit []byte) {
		i := batch.(BatchIn)
		i.b.add(i.space, base.KindRangeDelete, start, limit)
	}
}
