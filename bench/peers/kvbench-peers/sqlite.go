//go:build cgo && sqlite

package main

import "github.com/loamdb/loam/bench/peers/sqlite"

func init() { drivers = append(drivers, sqlite.Driver{}) }
