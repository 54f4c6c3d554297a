# make help    these lines, of all makefiles
# make build   the programs, in bin/
# make bench   LevelDB's table and the Bloom filter experiment, within 5 minutes on 2 cores
# make bench-peers   Loam beside its peers, N=2000000 entries, all in one report in build/
# make bench-table   the table and plot of the README, about half an hour
# make bench-check   a small set beside goleveldb and LevelDB; alarm when a ratio fell by 10 % twice
# make bench-raftlog  Raft logs: Loam, raft-wal, raft-boltdb, Pebble, Badger; BYTES=2GiB a cell
# make bench-raftlog-jraft  the same with the two log storages of SOFAJRaft, by Maven
# make bench-oltp    sysbench's transactions: Loam, replicas, TiKV's mock, SQLite, bbolt, Badger
# make bench-replicas  three nodes: Loam, dragonboat, etcd
# make bench-repairs   what repairs lose, Loam's and others', as the table of docs/repair.md
# make peers         only the program for that, bin/kvbench-peers
# make test         all tests in their usual size, 7 to 13 minutes on 2 cores
# make test-full    in their long size, which takes a few hours
# make lint         formatters and linters of every language; make test calls it
# make importers   bin/loam-import, which reads databases of other engines, with cgo where gcc is
# make lib, install, python-wheel, node-build: see cabi/lib.mk, bindings/*/*.mk

GO ?= go
export CGO_ENABLED ?= 0

.PHONY: build help importers bench bench-peers bench-table bench-check bench-raftlog bench-raftlog-jraft bench-oltp bench-replicas bench-repairs peers

REVISION := $(shell git describe --always --dirty=+ --exclude='*' 2>/dev/null)
export STAMP := -X github.com/loamdb/loam/internal/kvbench.revision=$(REVISION)

build:
	$(GO) build -ldflags "-s -w $(STAMP)" -o bin/ ./cmd/...

# RocksDB is read where its header is.
importers:
	@cd importers && CGO_ENABLED=$$(command -v gcc >/dev/null && echo 1 || echo 0) $(GO) build \
		$$(echo '#include <rocksdb/c.h>' | gcc -E - >/dev/null 2>&1 && echo -tags rocksdb) \
		-o ../bin/ ./loam-import

help:
	@sed -n 's/^# \(make [a-z].*\)/\1/p' $(MAKEFILE_LIST)

# The database lies below build/, not in a temporary directory, which may be in memory.
bench: build
	@mkdir -p build
	@TMPDIR="$(CURDIR)/build" bin/kvbench leveldb bloom=2M --json build/bench.json

# LevelDB, RocksDB, LMDB and SQLite are C and C++ libraries. Debian's are installed if that is
# possible and they are not there; an engine whose library is missing is left
# out. RocksDB's own release build comes from Maven Central where it can be
# fetched; Debian's package has the headers. LEVELDB, ROCKSDB, LMDB and SQLITE name the
# prefix of another build (include/, lib/); ROCKSDB=/usr is Debian's.
N ?= 2000000
ROUNDS ?= 2
PEERS ?= all
LEVELDB ?=
ROCKSDB ?=
LMDB ?=
SQLITE ?=

peers:
	@GO="$(GO)" LEVELDB="$(LEVELDB)" ROCKSDB="$(ROCKSDB)" LMDB="$(LMDB)" SQLITE="$(SQLITE)" bench/peers/build.sh bin/kvbench-peers

bench-peers: peers
	@mkdir -p build
	@TMPDIR="$(CURDIR)/build" bin/kvbench-peers --engine=$(PEERS) --num=$(N) --rounds=$(ROUNDS) --json build/peers.json --html build/peers.html --tsv build/peers.tsv

# The table and the plot of the README: data larger than memory. The report is
# build/table.json, the plot docs/bench.svg; the table is printed.
TABLE_BENCHMARKS := fillseq,fillrandom,overwrite,readrandom,readmissing,seekrandom,readseq,readwhilewriting

bench-table: peers
	@mkdir -p build
	@TMPDIR="$(CURDIR)/build" bin/kvbench-peers --engine=loam,rocksdb,pebble,badger,bbolt,lmdb --num=2M --reads=200000 --memory=160M --write_buffer_size=8MiB --benchmarks=$(TABLE_BENCHMARKS) --json build/table.json
	@$(GO) run ./bench/table build/table.json docs/bench.svg

CHECKED_BENCHMARKS := fillseq,fillsync,fillrandom,overwrite,compact,readrandomcached,readmissing,seekrandom,readseq,readreverse,multireadrandom,readwhilewriting

bench-check: peers
	@mkdir -p build
	@TMPDIR="$(CURDIR)/build" bin/kvbench-peers --engine=loam,goleveldb,leveldb $(if $(FORMAT),--format=$(FORMAT)) --num=1M --rounds=2 --benchmarks=$(CHECKED_BENCHMARKS) --json build/check.json
	@bin/kvbench-peers check build/check.json bench/history

BYTES ?= 256MiB

bench-raftlog:
	@mkdir -p build
	@cd bench/raftlog && $(GO) run ./kvbench-raftlog --dir=$(CURDIR)/build --bytes=$(BYTES) --json=$(CURDIR)/build/raftlog.json $(JRAFT)

# java's class path: the program, and what Maven downloaded
JRAFT_BUILD := $(CURDIR)/build/jraft

bench-raftlog-jraft:
	@mkdir -p $(JRAFT_BUILD)
	@mvn -B -q -f bench/raftlog/jraft/pom.xml -DbuildDirectory=$(JRAFT_BUILD) compile dependency:build-classpath -Dmdep.outputFile=$(JRAFT_BUILD)/classpath
	@$(MAKE) bench-raftlog JRAFT="--jraft=$(JRAFT_BUILD)/classes:$$(cat $(JRAFT_BUILD)/classpath)"

# SQLite is left out where there is no gcc.
ROWS ?= 1000000
THREADS ?= 1,8,64,512

bench-oltp:
	@mkdir -p build
	@cd bench/oltp && CGO_ENABLED=$$(command -v gcc >/dev/null && echo 1 || echo 0) $(GO) run ./kvbench-oltp --dir=$(CURDIR)/build --rows=$(ROWS) --threads=$(THREADS) --json=$(CURDIR)/build/oltp.json --html=$(CURDIR)/build/oltp.html --tsv=$(CURDIR)/build/oltp.tsv

bench-replicas:
	@mkdir -p build
	@cd bench/replicas && TMPDIR=$(CURDIR)/build $(GO) test -run none -bench . -benchtime 30000x

# The same libraries as for peers; one that is missing is left out.
bench-repairs:
	@cd bench/peers && $(GO) run ./rocksdb/release ../../build/rocksdb || true
	@cd bench/peers && ROCKSDB="$(or $(ROCKSDB:=/lib/librocksdb.so),$(wildcard $(CURDIR)/build/rocksdb/lib/librocksdb.so))" \
		LEVELDB="$(LEVELDB:=/lib/libleveldb.so)" $(GO) run ./repairs ../../docs/repair.md

include internal/testkit/lint/lint.mk
include internal/testkit/test.mk packaging/packaging.mk
-include cabi/lib.mk bindings/python/python.mk bindings/node/node.mk bindings/java/java.mk
