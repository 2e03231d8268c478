#!/usr/bin/env bash
# The core's tests and the addon under sanitizers; the first finding fails.
#
#     sanitize.sh [--quick] [core] [threads] [addon]
#
# core: ASan and UBSan over the native tests. threads: TSan over those that use threads, and some that do not. addon: the
# addon with ASan and UBSan inside Node, with its worker threads. --quick: a part of each, for CI. BUILD chooses the folder.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=${BUILD:-$root/build/sanitize}
quick=
[ "${1:-}" = --quick ] && { quick=1; shift; }
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(core threads addon)
flags='-O1 -g -fno-sanitize-recover=undefined'
# Files that are short under sanitizers and between them touch every part of the core.
short='base structures workflow scheduler pair_scheduler planner live stations threads'

core() {
  UBSAN_OPTIONS=print_stacktrace=1 CXXFLAGS='-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined' BUILD=$build/core \
    SUITES=${quick:+$short} bash scripts/native-test.sh
}

threads() {
  local suites=threads
  [ -n "$quick" ] || suites='threads scheduler planner stations metamorphic tuner'
  TSAN_OPTIONS=halt_on_error=1 CXXFLAGS="$flags -fsanitize=thread" BUILD=$build/threads SUITES=$suites \
    bash scripts/native-test.sh
}

# node-gyp builds where binding.gyp lies: a folder of links keeps the ordinary build as it is.
addon() {
  local folder=$build/addon
  mkdir -p "$folder"
  for name in binding.gyp native node_modules scripts package.json; do ln -sfn "$root/$name" "$folder/$name"; done
  (
    cd "$folder"
    export CXXFLAGS="$flags -fno-lto -fsanitize=address,undefined" LDFLAGS="-fno-lto -fsanitize=address,undefined"
    if [ -d build ]; then npx --no-install node-gyp build -j "$(nproc)"; else npx --no-install node-gyp rebuild -j "$(nproc)"; fi
  ) > "$build/addon.log" 2>&1 || { tail -n 40 "$build/addon.log"; exit 1; }
  local tests=(test/hazards/{foreign-objects,detached-buffers,garbage-collection,many-environments,worker-termination}.test.ts
    test/hazards/{environment-exit,thrown-callback,number-limits,clock-backwards,id-reuse}.test.ts)
  [ -n "$quick" ] || tests+=(test/contract/*.test.ts test/live/*.test.ts test/unit/simulator/*.test.ts test/unit/tuning/*.test.ts
    test/unit/bounds/*.test.ts)
  # The tuner's tests read the constants' evidence with the built package.
  [ -n "$quick" ] || [ -d dist ] || npm run --silent build
  # Memory of V8 is not ours to watch, and a process that exits in mid-work leaks by intention.
  LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so) $(gcc -print-file-name=libstdc++.so.6)" \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 LAXITY_PREBUILD=$folder LAXITY_SANITIZED=1 \
    node node_modules/mocha/bin/mocha.js --no-config --node-option import=tsx --timeout 600000 "${tests[@]}"
}

for part in "${parts[@]}"; do
  echo "== sanitizers: $part"
  "$part"
done
