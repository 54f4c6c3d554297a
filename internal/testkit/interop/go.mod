module github.com/loamdb/loam/internal/testkit/interop

go 1.25.0

replace github.com/loamdb/loam => ../../..

require (
	github.com/loamdb/loam v0.0.0-00010101000000-000000000000
	github.com/syndtr/goleveldb v1.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/golang/snappy v1.0.0 // indirect
	github.com/klauspost/compress v1.18.0 // indirect
	golang.org/x/crypto v0.45.0 // indirect
	golang.org/x/sys v0.38.0 // indirect
)
