# make dist         packages for every platform that has a compiler here, in build/dist, with
#                   their sizes and sums; DIST="lib java" PLATFORMS="linux-amd64" builds some
# make dist-check   the packages are read, and installed and used where they can run; those of
#                   each kind are built twice, bit for bit the same
# make dist-tools   installs the compilers and emulators of other platforms: apt, pip

PYTHON ?= python3
DIST ?=
PACKAGING = PYTHON="$(PYTHON)" MAKE="$(MAKE)" GO="$(GO)" CGO_ENABLED=0 $(GO) run ./packaging

.PHONY: dist dist-check dist-tools

dist:
	@$(PACKAGING) build $(DIST)

dist-check:
	@$(PACKAGING) check $(DIST)

dist-tools:
	apt-get install -y --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
		libstdc++6-arm64-cross gcc-mingw-w64-x86-64 qemu-user-static wine64
	$(PYTHON) -m venv build/zig
	build/zig/bin/pip install -q --disable-pip-version-check --require-hashes -r packaging/requirements.txt
