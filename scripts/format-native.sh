#!/usr/bin/env bash
# Formats the C++ sources, or with --check fails where one is not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run -Werror)
find native test/native test/fuzz bench -name '*.h' -o -name '*.cc' | sort | xargs npx --no-install clang-format "${mode[@]}"
