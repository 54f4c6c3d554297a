# make python-wheel   the wheel and the source distribution, in build/python/dist
# make python-test    the tests, and plyvel's own, against the installed wheel in a venv
#                     made for them
# make python-asan    the tests with the extensions under AddressSanitizer and UBSan
# make python-freeze  a program frozen by PyInstaller is run
# make python-bench   loamdb beside plyvel; figures and plot in build/python

PYTHON ?= python3
GO ?= go
PYTHON_BUILD := $(CURDIR)/build/python
PYTHON_PINS := bindings/python/requirements
PYTHON_BUILD_VENV := $(PYTHON_BUILD)/build-venv
PYTHON_VENV := $(PYTHON_BUILD)/venv
PYTHON_SOURCES := $(wildcard bindings/python/*.py bindings/python/*.c bindings/python/*.h bindings/python/src/loamdb/*.py \
	bindings/python/src/loamdb/_pyinstaller/*.py \
	bindings/python/src/loamdb/*.pyi) bindings/python/pyproject.toml LICENSE THIRD-PARTY.txt cabi/loam.h cabi/glibc.h build/lib/libloam.so build/lib/loam

.PHONY: python-wheel python-test python-asan python-freeze python-bench

python-wheel: $(PYTHON_BUILD)/wheel.stamp
	@echo "in build/python/dist:" && ls $(PYTHON_BUILD)/dist

# What builds, and what tests: users build without downloading the second.
$(PYTHON_BUILD_VENV)/stamp: bindings/python/python.mk $(PYTHON_PINS)/build.txt
	$(PYTHON) -m venv $(PYTHON_BUILD_VENV)
	$(PYTHON_BUILD_VENV)/bin/pip install -q --disable-pip-version-check --require-hashes -r $(PYTHON_PINS)/build.txt
	touch $@

$(PYTHON_VENV)/stamp: bindings/python/python.mk $(PYTHON_PINS)/test.txt
	$(PYTHON) -m venv $(PYTHON_VENV)
	$(PYTHON_VENV)/bin/pip install -q --disable-pip-version-check --require-hashes -r $(PYTHON_PINS)/test.txt
	touch $@

$(PYTHON_BUILD)/wheel.stamp: $(PYTHON_SOURCES) $(PYTHON_BUILD_VENV)/stamp
	rm -rf $(PYTHON_BUILD)/dist bindings/python/build
	@LOAM_LIBRARY=$(CURDIR)/build/lib/libloam.so $(PYTHON_BUILD_VENV)/bin/python -m build -n --sdist --wheel -o $(PYTHON_BUILD)/dist bindings/python \
		> $(PYTHON_BUILD)/wheel.log 2>&1 || { cat $(PYTHON_BUILD)/wheel.log; false; }
	touch $@

# plyvel's tests come from its source distribution; plyvel.py makes "import plyvel" ours.
$(PYTHON_BUILD)/plyvel/plyvel.py: $(PYTHON_VENV)/stamp
	rm -rf $(@D) && mkdir -p $(@D)
	$(PYTHON_VENV)/bin/pip download -q --disable-pip-version-check --no-binary plyvel --no-deps --no-build-isolation -d $(@D) --require-hashes -r internal/testkit/interop/peers/requirements.txt
	tar -xzf $(@D)/plyvel-1.5.1.tar.gz -C $(@D) --strip-components=2 plyvel-1.5.1/test/test_plyvel.py
	printf 'import sys\nimport loamdb.plyvel\nsys.modules["plyvel"] = loamdb.plyvel\n' > $@

$(PYTHON_BUILD)/installed.stamp: $(PYTHON_BUILD)/wheel.stamp $(PYTHON_VENV)/stamp
	$(PYTHON_VENV)/bin/pip install -q --disable-pip-version-check --force-reinstall --no-deps $(PYTHON_BUILD)/dist/loamdb-*.whl
	touch $@

python-test: $(PYTHON_BUILD)/installed.stamp $(PYTHON_BUILD)/plyvel/plyvel.py build/loamd
	LOAM_LOAMD=$(CURDIR)/build/loamd $(IN_MEMORY) $(PYTHON_VENV)/bin/python -m pytest -p no:cacheprovider bindings/python/tests
	cd $(PYTHON_BUILD)/plyvel && PYTHONPATH=. $(PYTHON_VENV)/bin/python -m pytest -q -p no:cacheprovider test_plyvel.py

# The sanitizers' libraries come before Python, which is not built with them. The tests
# of fork are left out: a child finds the sanitizer's allocator locked if a thread of
# its parent had it. Memory that has been freed is kept, so what is resident grows.
PYTHON_ASAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
PYTHON_ASAN_TEST = PYTHONPATH=$(PYTHON_BUILD)/asan/site:. ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc LOAMDB_TEST_EXITS=20 \
	LD_PRELOAD="$(shell gcc -print-file-name=libasan.so) $(shell gcc -print-file-name=libubsan.so)" \
	$(PYTHON_VENV)/bin/python -m pytest -q -p no:cacheprovider

$(PYTHON_BUILD)/asan/stamp: $(PYTHON_BUILD)/wheel.stamp $(PYTHON_VENV)/stamp
	rm -rf $(@D) bindings/python/build
	CC=gcc CFLAGS="$(PYTHON_ASAN) -O1" LDFLAGS="$(PYTHON_ASAN)" LOAM_LIBRARY=$(CURDIR)/build/lib/libloam.so \
		$(PYTHON_BUILD_VENV)/bin/python -m build -n --wheel -o $(@D) bindings/python
	rm -rf bindings/python/build
	$(PYTHON_VENV)/bin/pip install -q --disable-pip-version-check --no-deps --target $(@D)/site $(@D)/loamdb-*.whl
	touch $@

python-asan: $(PYTHON_BUILD)/asan/stamp $(PYTHON_BUILD)/plyvel/plyvel.py
	$(PYTHON_ASAN_TEST) bindings/python/tests --ignore bindings/python/tests/test_build.py --ignore bindings/python/tests/test_fork.py \
		--deselect tests/test_process.py::test_iterators_leave_nothing
	cd $(PYTHON_BUILD)/plyvel && $(PYTHON_ASAN_TEST) test_plyvel.py

$(PYTHON_BUILD)/freeze/venv/stamp: bindings/python/python.mk $(PYTHON_PINS)/freeze.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check --require-hashes -r $(PYTHON_PINS)/freeze.txt
	touch $@

python-freeze: $(PYTHON_BUILD)/wheel.stamp $(PYTHON_BUILD)/freeze/venv/stamp
	cd $(PYTHON_BUILD)/freeze && rm -rf work dist db && \
		venv/bin/pip install -q --disable-pip-version-check --force-reinstall --no-deps ../dist/loamdb-*.whl && \
		venv/bin/pyinstaller --noconfirm --log-level WARN --workpath work --distpath dist --specpath work $(CURDIR)/bindings/python/tests/frozen.py
	cd / && env -i $(PYTHON_BUILD)/freeze/dist/frozen/frozen $(PYTHON_BUILD)/freeze/db

python-bench: $(PYTHON_BUILD)/installed.stamp
	$(PYTHON_VENV)/bin/python bench/bindings/python/bench.py --dir $(PYTHON_BUILD) --json $(PYTHON_BUILD)/bench.json --html $(PYTHON_BUILD)/bench.html
