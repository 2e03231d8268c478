#!/usr/bin/env bash
# Builds the core without Node and runs its doctest suites. CXX, CXXFLAGS and BUILD choose the compiler, flags and folder;
# SUITES="planner scheduler" builds only these files of test/native.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/native-test}
mkdir -p "$build"
make --no-print-directory -s -j"$(nproc)" -f scripts/native.mk BUILD="$build" "$build/native-test"
"$build/native-test" "$@"
