package report

import (
	"encoding/hex"

	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

// Dump is what a dump has, as JSON, as loam.h describes it.
func Dump(i *dump.Info) (string, error) {
	spaces := []map[string]any{}
	for _, k := range i.Keyspaces {
		spaces = append(spaces, map[string]any{"name": k.Name, "comparator": k.Comparer,
			"merge_operator": k.MergeOperator, "expires": k.Expires, "entries": k.Entries})
	}
	return JSON(map[string]any{
		"id": hex.EncodeToString(i.ID[:]), "created": i.Created.Unix(), "sequence": i.Sequence,
		"keyspaces": spaces, "bytes": i.Bytes, "size": i.Size,
	})
}

// Backup is what JSON says of a backup.
func Backup(info backup.Info) map[string]any {
	m := map[string]any{
		"id": info.ID, "created_ms": info.Created.UnixMilli(), "database": Printable(info.Database),
		"format": info.Format, "files": info.Files, "bytes": info.Bytes, "new_bytes": info.NewBytes,
		"error": nil,
	}
	if info.Err != nil {
		m["error"], m["created_ms"] = info.Err.Error(), 0
	}
	return m
}
