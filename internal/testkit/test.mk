# make test          all tests in their usual size, 7 to 13 minutes on 2 cores
# make test-full     all tests in their long size, which takes a few hours
# make test-<step>   one step: go, race, checked, fuzz, interop, python, node, java
# make test-ethdb    go-ethereum's suite for key-value stores, part of the step interop
# make test-otel     the example of OpenTelemetry, part of the step interop
# make test-raftlog  the Raft log, in long runs its benchmark, part of the step interop
# make test-replica  replicated databases, part of the step interop
# make test-importers  databases of other engines, part of the step interop
# make test-s3       replicas in object stores, part of the step interop
# make test-tikv     the store on TiKV, on a mock, part of the step interop in long runs
# make tikv-smoke    the same in the cluster of the placement drivers PD=host:2379[,host:2379]
# make audit         checksums and known vulnerabilities of what the project depends on

PYTHON ?= python3
FUZZTIME ?= 1s
# What a fuzz target or the tests of a package take at most, beyond their own limits: it ends a
# hang, also on a machine that is many times slower.
TEST_TIMEOUT ?= 30m

# Packages whose code several goroutines run at once.
CONCURRENT := ./lsm $(addprefix ./internal/,memory/cache store/write memory/epoch store/files base/hist tree/memtable memory/offheap os/seal os/vfs testkit/history testkit/lifetimes)
# Tests that take long under the race detector or with the tags, though one goroutine of theirs
# calls the database, and what it meets in the background is met by others: histories, failing
# calls one after the other, damages, and bubbles that wait for compactions. Long runs have them.
ALONE := BatchMayExceedTheWriteBuffer BulkLoad BulkLoadSize ChangesFaults ChangesModel \
	CompactionFilterHistories CompressionByLevel CrashRandom CutTables \
	DeleteRangeIsJumped DirectIO DirectIOFaults ErrorTexts FailedCreationCanBeCut \
	FailedFollowerClosesFiles FailedOpenLeavesNothing FiltersGiveWay \
	FollowerOfADamagedDirectory FollowerOfAFasterWriter FollowerOfDeletedLogs \
	ForeignDirectories GetsMergeRuns GoldenDatabases HitRatio IdleBecomesOneRun \
	InspectAfterKill InspectScanIsBounded LogShortageHeals LongCallFaults ManyKeyspaces \
	MemtablesTogether Model NewTablesAreWarm Overwrites PanicsCloseFiles PrefixFilters \
	RangeDeleteScripts ReadersAgreeOnSwappedLogs RecoveryMemoryIsBounded \
	ReopenKeepsWhatWasWritten RepairAfterRepair RepairOfSwappedLogs RepairOrdersIngested \
	SeekOverManyRangeDels SeeksMergeRuns SpaceAmplification Spare VerifyFindsFlippedBytes \
	VerifyNamesEveryTable
# Tests of one goroutine, too, that take long under the race detector only. Builds with the tags
# check more in them. Tests of their own have writers, readers and followers beside each other.
ALONE_UNDER_RACE := ChangesGap ChangesOfFollower Checkpoint CheckpointAgain CheckpointFails \
	CheckpointReadOnly CheckpointStageRemoved CheckpointWithoutLinks CloseEndsFlushes \
	CloseEndsMerges CompactRangeDropsWhatSnapshotsKept CutEditOfAnIngest \
	DamagedEditOfAnIngest DamagedFirstEdits DamagedKeyspaceEdit DeleteRangeFreesSpace \
	DeletionsAreCompactedAway DirectIORefused EmptiedAndGone EmptiedBeforeOpen \
	EmptiedKeyspaceLeaves EmptiedSharingResources EmptiesAreCut EmptiesAreKnown \
	EmptiesAreOfLaterReaders EmptiesOfFollowers EmptiesOfFollowersAreKnown \
	EmptiesOfSnapshots EmptiesWindows EncryptedDatabase ExportCrashes ExportFaults \
	ExportKeyspaces Follower FollowerAheadOfItsLogs FollowerOfKeyspacesAndBatches \
	IdleKeyspace IteratorTriesAgain LogAsManifest ManualCompactionGoesInSteps \
	ManualCompactionYields NumbersInNoLog RangeConflicts ReadOnlyChangesNothing Rekey \
	RepairKeepsIngestedApart RepairLosesNothingOfSwappedLogs RepairLosesOneBlockOnly \
	Retention SetOptionWorks SharedMemorySeals SnapshotsSurviveCompaction TTLLog \
	TablesBeyondMaxDecodedBlock TxnModel VerifyHealthy VerifyReadsEveryByte
empty :=
left-alone = $(if $(LOAM_T2),,-skip '^Test($(subst $(empty) $(empty),|,$(strip $(1))))$$')
# Packages beside lsm that read memory off the Go heap which others free. With the tag unmap,
# freed memory is unreadable for good, so that a use of it ends the test with a SIGSEGV;
# the race detector does not see that memory.
UNMAPPED := $(addprefix ./internal/,memory/cache memory/epoch store/files tree/memtable memory/offheap tree feature/txn testkit/history testkit/lifetimes testkit/world)
# Packages that check more in builds with the tag invariants.
CHECKED := ./lsm $(addprefix ./internal/,format/block memory/cache tree/compact tree/iters tree/memtable testkit/lifetimes testkit/metamorphic)

INTEROP := internal/testkit/interop
INTEROP_VENV := build/venv

# has is empty unless all the programs are there.
has = $(shell for p in $(1); do command -v $$p >/dev/null || exit; done; echo yes)

# A step that lacks a program is left out, which the last line says. The
# bindings' steps come with their makefiles.
ALL_STEPS := go lint race checked fuzz interop $(if $(wildcard bindings/python/python.mk),python) $(if $(wildcard bindings/node/node.mk),node) \
	$(if $(wildcard bindings/java/java.mk),java)
TEST_STEPS := $(filter go checked fuzz $(if $(call has,gcc),race) $(if $(call has,$(PYTHON) npm),interop lint) \
	$(if $(call has,gcc $(PYTHON)),python) $(if $(call has,gcc npm),node) $(if $(call has,gcc javac mvn),java),$(ALL_STEPS))
LEFT_OUT := $(filter-out $(TEST_STEPS),$(ALL_STEPS))

# The same builds in every clone, so that they share Go's cache, but every test is run.
TEST_GOFLAGS := $(filter-out -trimpath -count=1,$(shell $(GO) env GOFLAGS)) -trimpath -count=1
test-%: export GOFLAGS = $(TEST_GOFLAGS)
# Long runs compile the command in the bindings' packages with the flags of releases.
test-%: export SHIPPED := $(LOAM_T2)
WITHIN := internal/testkit/within.sh
IN_MEMORY := internal/testkit/inmemory.sh

.PHONY: audit test test-full test-lint test-go test-race test-checked test-fuzz test-interop test-ethdb test-otel test-raftlog test-replica test-importers test-s3 test-tikv tikv-smoke test-python test-node test-java

# Python, node and java leave a processor idle for long: they run beside steps that do not. Node
# has the builds of python. The step go takes as much of the processors as all others, and its
# packages fill both when it is the last.
LANES := "$(filter go,$(TEST_STEPS))" "$(filter python node java,$(TEST_STEPS))" \
	"$(filter race checked,$(TEST_STEPS))" "$(filter lint fuzz interop,$(TEST_STEPS))"
define run-steps
	@LEFT_OUT="$(strip $(LEFT_OUT))" MAKE="$(MAKE)" internal/testkit/steps.sh $(LANES)
endef

test:
	$(run-steps)

test-full: export LOAM_T2 := 1
# crash takes 40 minutes on two quiet processors, and three times that beside other work.
test-full: export TEST_TIMEOUT := 150m
test-full: export FUZZTIME := 1m
test-full:
	$(run-steps)

# Tests that do not go over the formats by themselves run on the default one, native, and in
# long runs on LevelDB's as well. That is not known to the test cache. Examples show the default.
ON_EACH_FORMAT := ./lsm ./internal/testkit/surroundings ./internal/testkit/leak

# What vet checks is the same in every step; it looks at the files of other builds as well: of
# those with the tags here, of those with the race detector in the step race.
TAGGED := ./internal/base/invariants $(addprefix ./internal/memory/,cache offheap)

# Packages whose tests take longest begin first, so that none runs alone in the end.
LONGEST = $(if $(LOAM_T2),$(addprefix ./internal/testkit/,crash kill)) ./lsm

test-go:
	@$(GO) vet ./... && $(GO) vet -tags 'invariants unmap' $(TAGGED)
	@status=0; $(GO) test -vet=off -timeout $(TEST_TIMEOUT) $(LONGEST) ./... || status=1; \
	$(if $(LOAM_T2),LOAM_FORMAT=leveldb $(GO) test -vet=off -count=1 -run '^Test' \
		-timeout $(TEST_TIMEOUT) $(ON_EACH_FORMAT) || status=1;) exit $$status

test-lint: lint

# The other steps build without cgo, so that cabi's Go files are read and its panics tested here.
test-race:
	@CGO_ENABLED=1 $(GO) vet ./cabi/... && CGO_ENABLED=1 $(GO) vet -race ./internal/memory/arena
	@CGO_ENABLED=1 $(GO) test -vet=off -run TestPanics ./cabi
	@CGO_ENABLED=1 $(GO) test -vet=off -race -short -timeout $(TEST_TIMEOUT) \
		$(call left-alone,$(ALONE) $(ALONE_UNDER_RACE)) $(CONCURRENT)

# Both tags at once in usual runs, each alone in long ones: the first needs no check of the second.
test-checked:
	@$(GO) test -vet=off -tags 'unmap invariants' -short -timeout $(TEST_TIMEOUT) \
		$(call left-alone,$(ALONE)) $(sort $(UNMAPPED) $(CHECKED))
	$(if $(LOAM_T2),@$(GO) test -vet=off -tags unmap -short -timeout $(TEST_TIMEOUT) $(UNMAPPED) ./lsm)
	$(if $(LOAM_T2),@$(GO) test -vet=off -tags invariants -short -timeout $(TEST_TIMEOUT) $(CHECKED))

test-fuzz:
	@GO="$(GO)" internal/testkit/fuzz.sh $(FUZZTIME)

# LevelDB by way of plyvel and classic-level, and goleveldb; what refuses a native
# directory: LevelDB, RocksDB (the system's libraries), goleveldb, Pebble. Repairs of all
# of them beside Loam's. The drivers of the last two, for benchmarks, are tested as well.
$(INTEROP_VENV)/stamp: $(INTEROP)/peers/requirements.txt
	@$(PYTHON) -m venv $(INTEROP_VENV)
	@$(INTEROP_VENV)/bin/pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(INTEROP)/peers/node_modules/.package-lock.json: $(INTEROP)/peers/package-lock.json
	@cd $(INTEROP)/peers && npm ci --silent --no-audit --no-fund && touch node_modules/.package-lock.json

# What is built of hundreds of packages that nothing else needs is tested in long runs.
test-interop: test-ethdb test-otel test-raftlog test-replica test-importers test-s3 $(if $(LOAM_T2),test-tikv) $(INTEROP_VENV)/stamp $(INTEROP)/peers/node_modules/.package-lock.json
	@$(WITHIN) $(INTEROP) $(GO) vet ./...
	@LOAM_INTEROP=all LOAM_PYTHON=$(CURDIR)/$(INTEROP_VENV)/bin/python \
		$(WITHIN) $(INTEROP) $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...
	@$(WITHIN) bench/peers $(GO) test $(if $(LOAM_T2),,-vet=off) -timeout $(TEST_TIMEOUT) ./refusal ./repairs ./goleveldb ./pebble

# go-ethereum's own suite for key-value stores, over examples/ethdb. Go downloads go-ethereum.
test-ethdb:
	@$(WITHIN) examples/ethdb $(GO) vet ./...
	@$(WITHIN) examples/ethdb $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...

# Go downloads OpenTelemetry.
test-otel:
	@$(WITHIN) examples/otel $(GO) vet ./...
	@$(WITHIN) examples/otel $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...

# Go downloads hashicorp/raft, in the version of go.mod, in long runs also in that of raft18.mod. The
# race detector needs gcc.
test-raftlog:
	@$(WITHIN) raftlog $(GO) vet ./...
	@$(WITHIN) raftlog $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...
	$(if $(LOAM_T2),@cd raftlog && \
		$(GO) test -modfile=raft18.mod -tags raft18 -timeout $(TEST_TIMEOUT) -run Raft ./...)
	$(if $(call has,gcc),@CGO_ENABLED=1 $(WITHIN) raftlog $(GO) test -vet=off -race -short \
		-timeout $(TEST_TIMEOUT) -run '^Test(Readers|Raft)' ./...)
	$(if $(LOAM_T2),@$(WITHIN) bench/raftlog $(GO) vet ./... && \
		$(WITHIN) bench/raftlog $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...)

# Go downloads hashicorp/raft, and porcupine, which checks histories.
test-replica:
	@$(WITHIN) replica $(GO) vet ./...
	@$(WITHIN) replica $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...
	$(if $(LOAM_T2),@cd bench/replicas && $(GO) vet ./...)

# Go downloads the engines, and gcc compiles LMDB and SQLite in long runs. RocksDB is the system's.
test-importers:
	@$(WITHIN) importers $(GO) test -vet=off -timeout $(TEST_TIMEOUT) . ./bbolt ./pebble
	$(if $(and $(LOAM_T2),$(call has,gcc)),@cd importers && export CGO_ENABLED=1 tags= && \
		{ ! echo '#include <rocksdb/c.h>' | gcc -E - >/dev/null 2>&1 || tags=rocksdb; } && \
		$(GO) vet -tags "$$tags" ./... && \
		$(GO) test -vet=off -tags "$$tags" -timeout $(TEST_TIMEOUT) ./...)

# Go downloads an S3 client and a fake of a store.
test-s3:
	@$(WITHIN) s3 $(GO) vet ./...
	@$(WITHIN) s3 $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...

# Go downloads TiKV's client with its mock, which the benchmark of transactions measures, too.
# SQLite needs gcc, and a minute to be compiled: long runs have it.
test-tikv:
	@$(WITHIN) tikv $(GO) vet ./...
	@$(WITHIN) tikv $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...
	@$(WITHIN) bench/oltp $(GO) vet ./...
	@$(if $(and $(LOAM_T2),$(call has,gcc)),CGO_ENABLED=1) \
		$(WITHIN) bench/oltp $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...

tikv-smoke:
	$(if $(PD),@cd tikv && LOAM_TIKV_PD="$(PD)" $(GO) test -count=1 -v -timeout $(TEST_TIMEOUT) -run TestSmoke .,\
		@echo "tikv-smoke: SKIPPED, NOTHING WAS RUN: name a cluster by PD=host:2379[,host:2379]")

# The bindings' tests, then their writers are killed, and in long runs their
# disks copied as if the power had gone.
GUIDES = $(GO) test -vet=off -run TestGuides ./internal/testkit/guides
KILL = $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./internal/testkit/kill

# The server of the clients' tests. Go downloads hashicorp/raft.
.PHONY: build/loamd
build/loamd:
	@CGO_ENABLED=0 $(WITHIN) replica $(GO) build -o $(CURDIR)/$@ ./cmd/loamd

test-python: python-test $(if $(LOAM_T2),python-asan python-freeze)
	@LOAM_KILL_PYTHON=$(PYTHON_VENV)/bin/python $(KILL) -run '^(TestKillProgram|TestPowerCut)$$/^python$$'
	@LOAM_GUIDE_PYTHON=$(PYTHON_VENV)/bin/python LOAM_GUIDE_LIB=$(CURDIR)/build/lib $(GUIDES)

test-node: node-test
	@LOAM_KILL_NODE=$(CURDIR)/$(NODE_DIR) $(KILL) -run '^(TestKillProgram|TestPowerCut)$$/^node$$'
	@LOAM_GUIDE_NODE=$(CURDIR)/$(NODE_DIR) $(GUIDES)

# A JDK 17 or newer, and Maven, which downloads JUnit and its own plugins.
test-java: java-test $(if $(LOAM_T2),java-asan)
	@mkdir -p $(JAVA_BUILD)/kill && \
		$(JAVAC) -d $(JAVA_BUILD)/kill -cp $(JAVA_BUILD)/target/classes internal/testkit/kill/programs/Writer.java
	@LOAM_KILL_JAVA=$(CURDIR)/$(JAVA_BUILD)/kill:$(CURDIR)/$(JAVA_BUILD)/target/classes \
		$(KILL) -run '^(TestKillProgram|TestPowerCut)$$/^java$$'

audit:
	@GO="$(GO)" PYTHON="$(PYTHON)" internal/testkit/audit.sh
