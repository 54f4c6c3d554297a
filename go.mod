module github.com/loamdb/loam

go 1.25.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/golang/snappy v1.0.0
	github.com/google/go-cmp v0.7.0
	github.com/klauspost/compress v1.18.0
	golang.org/x/sys v0.38.0
)
