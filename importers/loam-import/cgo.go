//go:build cgo

package main

import (
	"github.com/loamdb/loam/importers/lmdb"
	"github.com/loamdb/loam/importers/sqlite"
)

func init() { engines["lmdb"], engines["sqlite"] = lmdb.Open, sqlite.Open }
