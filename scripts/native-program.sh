#!/usr/bin/env bash
# Builds the core without Node, with further sources, into a program: native-program.sh PROGRAM SOURCE…
# CXX, CXXFLAGS and BUILD choose the compiler, flags and folder.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
shift
build=${BUILD:-build/native}
mkdir -p "$build"
cat > "$build/$program.mk" <<'MAKE'
CXX ?= g++
CXXFLAGS ?= -O2 -g
FLAGS = -std=c++20 -fno-exceptions -fno-rtti -ffp-contract=off -Wall -Wextra -Werror $(DEFINES) -Inative -Itest/native -MMD -MP
CORE := $(shell node scripts/native-sources.mjs)
OBJECTS := $(CORE:%.cc=$(BUILD)/%.o) $(SOURCES:%.cc=$(BUILD)/%.o)
$(BUILD)/$(PROGRAM): $(OBJECTS)
	$(CXX) $(CXXFLAGS) -o $@ $^ -lpthread
$(BUILD)/native/%.o: native/%.cc
	@mkdir -p $(dir $@)
	$(CXX) $(FLAGS) $(CXXFLAGS) -c -o $@ $<
# doctest needs exceptions only to unwind a failed REQUIRE
$(BUILD)/test/%.o: test/%.cc
	@mkdir -p $(dir $@)
	$(CXX) $(FLAGS) -fexceptions -frtti $(CXXFLAGS) -c -o $@ $<
$(BUILD)/bench/%.o: bench/%.cc
	@mkdir -p $(dir $@)
	$(CXX) $(FLAGS) $(CXXFLAGS) -c -o $@ $<
-include $(OBJECTS:.o=.d)
MAKE
make --no-print-directory -s -j"$(nproc)" -f "$build/$program.mk" BUILD="$build" PROGRAM="$program" SOURCES="$*" \
  DEFINES="${DEFINES:-}" "$build/$program"
