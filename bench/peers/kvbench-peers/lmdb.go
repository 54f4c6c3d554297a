//go:build cgo && lmdb

package main

import "github.com/loamdb/loam/bench/peers/lmdb"

func init() { drivers = append(drivers, lmdb.Driver{}) }
