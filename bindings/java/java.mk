# Included by the Makefile.
#
# make java          the jar, in build/java/target
# make java-native   only its native libraries, in build/java/resources
# make java-test     the tests, in a JVM
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

.PHONY: java java-native java-test java-bench

java-native: $(JAVA_NATIVE)/libloamdbjni.so $(JAVA_NATIVE)/libloam.so.0

$(JAVA_NATIVE)/libloam.so.0: build/lib/libloam.so
	@mkdir -p $(@D)
	@cp build/lib/libloam.so.0 $@

# The engine is in the same directory, or was loaded before under its SONAME.
$(JAVA_NATIVE)/libloamdbjni.so: $(JAVA_C) $(JAVA_DIR)/src/main/c/shim.h cabi/loam.h $(JAVA_NATIVE)/libloam.so.0
	$(CC) $(OLD_GLIBC) -std=c99 -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -Icabi -I$(JAVA_INCLUDE) \
		-I$(JAVA_INCLUDE)/linux -o $@ $(JAVA_C) -L$(JAVA_NATIVE) -l:libloam.so.0 \
		-Wl,-soname,libloamdbjni.so,-z,defs,-z,nodelete,--build-id=none,-rpath,'$$ORIGIN' -pthread $(OLD_GLIBC_LIBS) -s

java: java-native
	@$(JAVA_MVN) -DskipTests package
	@echo "the jar is in $(JAVA_BUILD)/target"

java-test: java-native
	@$(JAVA_MVN) test

# Maven keeps the jar where it keeps all others, for the benchmark to depend on.
java-bench: java-native
	@$(JAVA_MVN) -DskipTests install
	@$(MVN) -B -q -f bench/bindings/java/pom.xml package
	@java -cp '$(JAVA_BUILD)/bench-target/classes:$(JAVA_BUILD)/bench-target/lib/*' org.openjdk.jmh.Main \
		-rf json -rff $(JAVA_BUILD)/bench.json $(JAVA_BENCH)
