module github.com/loamdb/loam/examples/ethdb

go 1.25.0

replace github.com/loamdb/loam => ../..

require (
	github.com/ethereum/go-ethereum v1.17.10
	github.com/loamdb/loam v0.0.0-00010101000000-000000000000
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.18.0 // indirect
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
