//go:build cgo && rocksdb

package main

import "github.com/loamdb/loam/bench/peers/rocksdb"

func init() { drivers = append(drivers, rocksdb.Driver{}) }
