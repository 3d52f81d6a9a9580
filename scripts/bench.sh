#!/usr/bin/env bash
# Runs every benchmark of the release preset, one after the other; the output is also kept in build/bench.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
build release
mkdir -p build/bench
found=0
for program in build/release/bin/*_bench; do
    [[ -x $program ]] || continue
    found=1
    say "$(basename "$program")"
    "$program" "$@" | tee "build/bench/$(basename "$program").txt"
done
((found)) || { echo "bench: no benchmark was built" >&2; exit 1; }
