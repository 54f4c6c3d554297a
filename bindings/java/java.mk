# Included by the Makefile.
#
# make java          the jar, in build/java/target
# make java-native   only its native libraries, in build/java/resources
# make java-test     the tests, in a JVM
# make java-asan     the tests with the JNI library under AddressSanitizer and UBSan; in make
#                    test-full
# make java-bench    loamdb beside rocksdbjni and leveldbjni; figures in build/java/bench.json;
#                    JAVA_BENCH='-f 1 get' are arguments of JMH

JAVA_DIR := bindings/java
JAVA_BUILD := build/java
MVN ?= mvn
JAVAC ?= javac
# Its headers are those of the JDK that runs javac, unless JAVA_HOME says otherwise.
JAVA_INCLUDE = $(or $(JAVA_HOME),$(shell dirname $$(dirname $$(readlink -f $$(command -v $(JAVAC))))))/include
JAVA_MACHINE := $(subst x86_64,x86-64,$(subst arm64,aarch64,$(shell uname -m)))
JAVA_PLATFORM := $(shell uname -s | tr A-Z a-z)-$(JAVA_MACHINE)
JAVA_NATIVE := $(JAVA_BUILD)/resources/io/loamdb/native/$(JAVA_PLATFORM)
JAVA_C := $(wildcard $(JAVA_DIR)/src/main/c/*.c)
# A clean checkout builds with Maven alone, which calls make: here make has been called.
JAVA_MVN = $(MVN) -B -q -f $(JAVA_DIR)/pom.xml -Dloam.native.built=true

.PHONY: java java-native java-test java-asan java-bench

java-native: $(JAVA_NATIVE)/libloamdbjni.so $(JAVA_NATIVE)/libloam.so.0

$(JAVA_NATIVE)/libloam.so.0: build/lib/libloam.so
	@mkdir -p $(@D)
	@cp build/lib/libloam.so.0 $@

# The engine is in the same directory, or was loaded before under its SONAME.
JAVA_CFLAGS = $(OLD_GLIBC) -std=c99 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -Icabi -I$(JAVA_INCLUDE) -I$(JAVA_INCLUDE)/linux
JAVA_LINK = -L$(JAVA_NATIVE) -l:libloam.so.0 -Wl,-soname,libloamdbjni.so,-z,nodelete,--build-id=none,-rpath,'$$ORIGIN' -pthread $(OLD_GLIBC_LIBS)

$(JAVA_NATIVE)/libloamdbjni.so: $(JAVA_C) $(JAVA_DIR)/src/main/c/shim.h cabi/loam.h $(JAVA_NATIVE)/libloam.so.0
	$(CC) $(JAVA_CFLAGS) -O2 -o $@ $(JAVA_C) $(JAVA_LINK) -Wl,-z,defs -s

java: java-native
	@$(JAVA_MVN) -DskipTests package
	@echo "the jar is in $(JAVA_BUILD)/target"

java-test: java-native build/loamd
	@LOAM_LOAMD=$(CURDIR)/build/loamd $(JAVA_MVN) test

# The JVM is not built with the sanitizers: their libraries come before it, and leave the signals
# to it and to Go. What the JVM keeps to its end is no leak.
JAVA_ASAN := $(CURDIR)/$(JAVA_BUILD)/asan
JAVA_ASAN_NATIVE := $(JAVA_ASAN)/resources/io/loamdb/native/$(JAVA_PLATFORM)

java-asan: java-native
	@mkdir -p $(JAVA_ASAN_NATIVE)
	@cp build/lib/libloam.so.0 $(JAVA_ASAN_NATIVE)/
	@gcc $(JAVA_CFLAGS) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
		-o $(JAVA_ASAN_NATIVE)/libloamdbjni.so $(JAVA_C) $(JAVA_LINK)
	@LD_PRELOAD="$(shell gcc -print-file-name=libasan.so) $(shell gcc -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:use_sigaltstack=0 \
		$(JAVA_MVN) -Dloam.build=$(JAVA_ASAN) test

# Maven keeps the jar where it keeps all others, for the benchmark to depend on.
java-bench: java-native
	@$(JAVA_MVN) -DskipTests install
	@$(MVN) -B -q -f bench/bindings/java/pom.xml package
	@java -cp '$(JAVA_BUILD)/bench-target/classes:$(JAVA_BUILD)/bench-target/lib/*' org.openjdk.jmh.Main \
		-rf json -rff $(JAVA_BUILD)/bench.json $(JAVA_BENCH)
