# make lib                   the C libraries, in build/lib
# make install PREFIX=/usr   libloam.so, its headers and the pkg-config file; LevelDB's
#                            C API goes to PREFIX/lib/loam, apart from the system's

GO ?= go
CC ?= cc
PREFIX ?= /usr/local
LIBDIR := build/lib
comma := ,
LOAM_VERSION := $(shell sed -n 's/.*loam_version(void) { return "\(.*\)"; }/\1/p' cabi/shim.c)
CABI_SOURCES := $(wildcard cabi/*.c cabi/*.h cabi/*.go cabi/loam.map cabi/internal/stk/*) go.mod $(shell find internal lsm -name '*.go' ! -name '*_test.go')
# Loads on old systems, too: see glibc.h. The two libraries are where the functions
# were until glibc 2.34.
OLD_GLIBC := $(if $(filter Linux,$(shell uname -s)),-include $(CURDIR)/cabi/glibc.h)
OLD_GLIBC_LIBS := $(if $(OLD_GLIBC),-Wl$(comma)--push-state$(comma)--no-as-needed$(comma)-l:libpthread.so.0$(comma)-l:libdl.so.2$(comma)--pop-state)
LEVELDB_SOURCES := $(wildcard cabi/leveldb/*.c cabi/leveldb/*.h cabi/leveldb/leveldb/*.h cabi/leveldb/*.map)

COMMAND_SOURCES := go.mod $(shell find cmd/loam internal lsm -type f ! -name '*_test.go' ! -path '*/testdata/*' 2>/dev/null)

.PHONY: lib install

lib: $(LIBDIR)/libloam.so $(LIBDIR)/libleveldb.so.1

# The command loam, as the packages of Python and Node have it, is built to be small: without HTTP/2,
# which the page does not need, and without inlining, which costs a load a fifth more of a
# processor and saves 0.3 of 8.4 MB of a package. go install builds it as usual.
#
# With SHIPPED empty, as in usual runs of make test, the packages are those of other builds: these
# flags have all of them compiled again. LOAM_BUILD is expanded where it is used, as SHIPPED is a
# variable of targets there.
SHIPPED ?= 1
LOAM_BUILD = $(if $(SHIPPED),-tags nethttpomithttp2 -gcflags=all=-l)
LOAM_LINK := -s -w -buildid= -funcalign=16 -X main.release=$(LOAM_VERSION)

# A command that was built with other flags is built again.
.PHONY: FORCE
$(LIBDIR)/loam.flags: FORCE
	@mkdir -p $(LIBDIR)
	@echo '$(LOAM_BUILD)' | cmp -s - $@ || echo '$(LOAM_BUILD)' > $@

$(LIBDIR)/loam: $(COMMAND_SOURCES) $(LIBDIR)/loam.flags
	@mkdir -p $(LIBDIR)
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false $(LOAM_BUILD) -o $@ -ldflags "$(LOAM_LINK)" ./cmd/loam

# What no read, write or compaction calls, or only beside a system call, for a whole block or once
# for a group of writes, is built to be small, too, and ingests, and deflate, which Minecraft's
# tables have: 230 KB of 9 MB.
LIB_SMALL := crypto/... math/big encoding/json fmt log/... reflect strconv strings context time os \
	io/fs internal/fmtsort internal/poll golang.org/x/sys/unix compress/flate path/filepath bufio \
	encoding/base64 errors io path sort ./internal/base/options \
	$(addprefix ./internal/store/,files work replay) ./internal/base/events \
	$(addprefix ./internal/os/,seal vfs filelock fileid directio memlimit) \
	$(addprefix ./internal/feature/,repair transfer inspect examine backup ingest follow) \
	$(addprefix ./internal/format/,owner foreign current) github.com/klauspost/compress/flate
LIB_BUILD := -buildmode=c-shared $(LIB_SMALL:%=-gcflags=%=-l)
# Functions begin at multiples of 16 bytes, as C compilers align them, and not of 32: 86 KB.
LIB_LINK := -s -w -buildid= -funcalign=16

# For packaging/, which builds both for other platforms: a line of go build's arguments and one of
# the linker's, of the command and of the library.
.PHONY: build-flags
build-flags:
	@printf '%s\n' '$(LOAM_BUILD)' '$(LOAM_LINK)' '$(LIB_BUILD)' '$(LIB_LINK)'

$(LIBDIR)/libloam.so.0: $(CABI_SOURCES)
	@$(if $(word 2,$(CURDIR)),echo "make: the path of the checkout has a space: move it"; exit 2)
	@mkdir -p $(LIBDIR)
	CGO_ENABLED=1 CGO_CFLAGS="-O2 $(OLD_GLIBC)" $(GO) build -trimpath -buildvcs=false $(LIB_BUILD) -o $@ \
		-ldflags "$(LIB_LINK) -extldflags '-Wl,--version-script=$(CURDIR)/cabi/loam.map,-soname,libloam.so.0 $(OLD_GLIBC_LIBS)'" ./cabi
	@rm -f $(LIBDIR)/libloam.so.h

$(LIBDIR)/libloam.so: $(LIBDIR)/libloam.so.0
	ln -sf libloam.so.0 $@

$(LIBDIR)/libleveldb.so.1: $(LEVELDB_SOURCES) cabi/loam.h $(LIBDIR)/libloam.so
	$(CC) $(OLD_GLIBC) -std=c99 -pedantic -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden -Icabi -Icabi/leveldb -o $@ $(wildcard cabi/leveldb/*.c) \
		-Wl,--version-script=cabi/leveldb/leveldb.map,-soname,libleveldb.so.1,-z,defs,-z,nodelete,-rpath,'$$ORIGIN:$$ORIGIN/..' -pthread -ldl $(OLD_GLIBC_LIBS)
	ln -sf libleveldb.so.1 $(LIBDIR)/libleveldb.so
	ln -sf libleveldb.so.1 $(LIBDIR)/libleveldb.so.1d

install: lib
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/lib/loam $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/include/loam/leveldb
	install -m 755 $(LIBDIR)/libloam.so.0 $(DESTDIR)$(PREFIX)/lib/
	ln -sf libloam.so.0 $(DESTDIR)$(PREFIX)/lib/libloam.so
	install -m 755 $(LIBDIR)/libleveldb.so.1 $(DESTDIR)$(PREFIX)/lib/loam/
	ln -sf libleveldb.so.1 $(DESTDIR)$(PREFIX)/lib/loam/libleveldb.so
	ln -sf libleveldb.so.1 $(DESTDIR)$(PREFIX)/lib/loam/libleveldb.so.1d
	install -m 644 cabi/loam.h cabi/loam.hpp cabi/loam_leveldb.hpp $(DESTDIR)$(PREFIX)/include/
	install -m 644 cabi/leveldb/leveldb/c.h $(DESTDIR)$(PREFIX)/include/loam/leveldb/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(LOAM_VERSION)|' cabi/loam.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/loam.pc
