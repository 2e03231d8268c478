#!/usr/bin/env bash
# Builds the core without Node and runs its doctest suites. CXX, CXXFLAGS and BUILD choose the compiler, flags and folder
# (for sanitizers: CXXFLAGS='-O1 -g -fsanitize=address,undefined' BUILD=build/asan).
set -euo pipefail
cd "$(dirname "$0")/.."
export BUILD=${BUILD:-build/native-test}
DEFINES=-DLAXITY_LAWS=1 bash scripts/native-program.sh native-test test/native/*.cc
"$BUILD/native-test" "$@"
