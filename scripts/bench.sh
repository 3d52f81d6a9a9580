#!/usr/bin/env bash
# Runs benchmarks of the release preset, one after the other; what they print is also kept in build/bench.
#   scripts/bench.sh [NAME...] [-- OPTION...]     names as in build/release/bin, default: all; options go to each
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
names=()
while (($#)) && [[ $1 != -- ]]; do
    names+=("$1")
    shift
done
(($#)) && shift
scripts/install-dependencies.sh bench
build release -DHOLDFAST_BUILD_BENCH=ON all benchmarks
if ((${#names[@]} == 0)); then
    for program in build/release/bin/*_bench; do
        [[ -x $program ]] && names+=("$(basename "$program")")
    done
fi
((${#names[@]})) || { echo "bench: no benchmark was built" >&2; exit 1; }

HOLDFAST_COMMIT=$(git describe --always --dirty --tags 2>/dev/null || echo unknown)
export HOLDFAST_COMMIT
mkdir -p build/bench
for name in "${names[@]}"; do
    options=("$@")
    # Those of bench/ make large files; those of single layers make none.
    [[ -e bench/$name.cpp ]] && options=(--directory build/bench "${options[@]}")
    say "$name"
    "build/release/bin/$name" "${options[@]}" | tee "build/bench/$name.txt"
done
