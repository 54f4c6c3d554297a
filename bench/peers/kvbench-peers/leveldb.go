//go:build cgo && leveldb

package main

import "github.com/loamdb/loam/bench/peers/leveldb"

func init() { drivers = append(drivers, leveldb.Driver{}) }
