#!/usr/bin/env bash
# Builds the core without Node and runs its doctest suites. CXX, CXXFLAGS and BUILD choose the compiler, flags and folder;
# SUITES="planner scheduler" builds only these files of test/native. Arguments go to one doctest program; without any, files run side by side.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/native-test}
mkdir -p "$build"
make --no-print-directory -s -j"$(nproc)" -f scripts/native.mk BUILD="$build" "$build/native-test"
if [ $# -gt 0 ]; then exec "$build/native-test" "$@"; fi
node scripts/run-doctest.mjs "$build/native-test"
