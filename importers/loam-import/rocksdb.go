//go:build cgo && rocksdb

package main

import "github.com/loamdb/loam/importers/rocksdb"

func init() { engines["rocksdb"] = rocksdb.Open }
