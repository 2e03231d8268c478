#!/usr/bin/env bash
# Builds the core without Node and runs its doctest suites. CXX, CXXFLAGS and BUILD choose the compiler, flags and folder
# (for sanitizers: CXXFLAGS='-O1 -g -fsanitize=address,undefined' BUILD=build/asan).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/native-test}
mkdir -p "$build"
cat > "$build/Makefile" <<'MAKE'
CXX ?= g++
CXXFLAGS ?= -O2 -g
FLAGS = -std=c++20 -fno-exceptions -fno-rtti -ffp-contract=off -Wall -Wextra -Werror -DLAXITY_LAWS=1 -Inative -Itest/native -MMD -MP
CORE := $(shell node scripts/native-sources.mjs)
TESTS := $(wildcard test/native/*.cc)
OBJECTS := $(CORE:%.cc=$(BUILD)/%.o) $(TESTS:%.cc=$(BUILD)/%.o)
$(BUILD)/native-test: $(OBJECTS)
	$(CXX) $(CXXFLAGS) -o $@ $^ -lpthread
$(BUILD)/native/%.o: native/%.cc
	@mkdir -p $(dir $@)
	$(CXX) $(FLAGS) $(CXXFLAGS) -c -o $@ $<
# doctest needs exceptions only to unwind a failed REQUIRE
$(BUILD)/test/%.o: test/%.cc
	@mkdir -p $(dir $@)
	$(CXX) $(FLAGS) -fexceptions -frtti $(CXXFLAGS) -c -o $@ $<
-include $(OBJECTS:.o=.d)
MAKE
make --no-print-directory -s -j"$(nproc)" -f "$build/Makefile" BUILD="$build" "$build/native-test"
"$build/native-test" "$@"
