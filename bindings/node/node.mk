# Included by the Makefile.
#
# make node-build   the Node package's binary for this platform, in bindings/node/npm
# make node-test    its tests
# make node-asan    many of them with AddressSanitizer and UBSan; in make test-full
# make node-pack    what a user installs: dist/loamdb-VERSION.tgz, for npm install

NODE_DIR := bindings/node
NODE_STAMP := $(NODE_DIR)/node_modules/.package-lock.json

.PHONY: node-build node-test node-asan node-pack node-bench

NODE_BUILT := build/node/built
NODE_SOURCES := $(wildcard $(NODE_DIR)/src/*.c $(NODE_DIR)/src/*.h) $(NODE_DIR)/scripts/build.js \
	cabi/loam.h cabi/glibc.h

# A file in npm/ that something else replaced, as packaging does, is newer than the stamp: the
# addon is built anew.
NODE_PLACED := $(wildcard $(addprefix $(NODE_DIR)/npm/*/,loamdb.node libloam.so loam))

$(NODE_BUILT): $(NODE_SOURCES) $(LIBDIR)/libloam.so.0 $(LIBDIR)/loam $(or $(NODE_PLACED),FORCE)
	@mkdir -p $(@D)
	@LOAM_LIBRARY=$(CURDIR)/build/lib/libloam.so node $(NODE_DIR)/scripts/build.js
	@touch $@

node-build: lib $(NODE_BUILT)
	@echo "the addon and the engine are in $(NODE_DIR)/npm; make node-pack makes a tarball of them"

$(NODE_STAMP): $(NODE_DIR)/package-lock.json
	@cd $(NODE_DIR) && npm ci --ignore-scripts --silent && touch node_modules/.package-lock.json

node-test: node-build $(NODE_STAMP) build/loamd
	@LOAM_LOAMD=$(CURDIR)/build/loamd $(IN_MEMORY) node $(NODE_DIR)/scripts/test.js
	@if [ -n "$$LOAM_T2" ] && [ "$$(uname)" = Linux ]; then node $(NODE_DIR)/scripts/asan.js; fi

node-asan: node-build $(NODE_STAMP)
	@node $(NODE_DIR)/scripts/asan.js

node-pack: node-build
	@tarball=$$(node $(NODE_DIR)/scripts/pack.js) && echo "npm install $$tarball"

node-bench: node-build $(NODE_STAMP)
	@mkdir -p build/node
	@cd bench/bindings/node && npm ci --ignore-scripts --silent && \
		node bench.js --json $(CURDIR)/build/node/bench.json --html $(CURDIR)/build/node/bench.html
