# make build   the programs, in bin/
# make bench   LevelDB's table and the Bloom filter experiment, within 5 minutes on 2 cores
# make test    the tests

GO ?= go
export CGO_ENABLED ?= 0

.PHONY: build bench test

build:
	$(GO) build -o bin/ ./cmd/...

# The database lies below build/, not in a temporary directory, which may be in memory.
bench: build
	@mkdir -p build
	@TMPDIR="$(CURDIR)/build" bin/kvbench leveldb bloom=2M --json build/bench.json

test:
	$(GO) vet ./... && $(GO) test ./...
