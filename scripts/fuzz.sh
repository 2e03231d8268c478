#!/usr/bin/env bash
# Builds the fuzz targets of test/fuzz with ASan and UBSan, runs them over their corpora, then mutates these.
#
#     fuzz.sh [--quick | --plain] [TARGET...]
#
# Without --quick for FUZZ_SECONDS per target (600), guided by coverage: test/fuzz/driver.cc with g++, libFuzzer with
# CLANG=1 (clang++). With --quick FUZZ_RUNS mutations (1,500), unguided, on the objects that sanitize.sh made; --plain is as
# short, on those of native-test.sh, without sanitizers. FUZZ_SEED seeds. An input that fails is left in BUILD/crash-TARGET: give it to BUILD/fuzz-TARGET to see it again.
set -euo pipefail
cd "$(dirname "$0")/.."
quick=
plain=
[ "${1:-}" = --quick ] && { quick=1; shift; }
[ "${1:-}" = --plain ] && { quick=1; plain=1; shift; }
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(trace log scheduler planner simulator pairs)
# A finding becomes a signal, which the driver answers by keeping the input.
export UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1 ASAN_OPTIONS=abort_on_error=1
[ -n "$plain" ] || export CXXFLAGS='-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined'
if [ -n "${CLANG:-}" ]; then
  build=${BUILD:-build/fuzz-clang}
  export CXX=${CLANGXX:-clang++} LDFLAGS=-fsanitize=fuzzer DRIVER=
  CXXFLAGS+=' -fsanitize=fuzzer-no-link'
elif [ -n "$plain" ]; then
  build=${BUILD:-build/native-test}
elif [ -n "$quick" ]; then
  build=${BUILD:-build/sanitize/core}
else
  build=${BUILD:-build/fuzz}
  CXXFLAGS+=' -fsanitize-coverage=trace-pc'
fi
mkdir -p "$build"
make --no-print-directory -s -j"$(nproc)" -f scripts/native.mk BUILD="$build" "${targets[@]/#/$build/fuzz-}"
for target in "${targets[@]}"; do
  corpus=test/fuzz/corpus/$target
  echo "== fuzz: $target"
  if [ -n "${CLANG:-}" ]; then
    mkdir -p "$build/corpus-$target"
    limit=-max_total_time=${FUZZ_SECONDS:-600}
    [ -z "$quick" ] || limit=-runs=${FUZZ_RUNS:-1500}
    "$build/fuzz-$target" "$limit" -seed="${FUZZ_SEED:-1}" -artifact_prefix="$build/crash-$target-" \
      "$build/corpus-$target" "$corpus"
  else
    limit=-seconds=${FUZZ_SECONDS:-600}
    [ -z "$quick" ] || limit=-runs=${FUZZ_RUNS:-1500}
    "$build/fuzz-$target" "$limit" -seed="${FUZZ_SEED:-1}" -crash="$build/crash-$target" "$corpus"
  fi
done
