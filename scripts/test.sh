#!/usr/bin/env bash
# The suite, as CI runs it. Each preset is built, warnings as errors; then one CTest run over all of them takes, of each
# preset, the tests labelled `suite` (cmake/holdfast_tests.cmake says which those are). Names bear the preset:
# `asan.heap_test`. Any failure makes the exit status non-zero.
#   scripts/test.sh          the presets release, asan, tsan, crash and fuzz; arm64 is cross-compiled
#   scripts/test.sh --all    and dev (gcc, assertions on), clang with clang-tidy
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
step "dependencies" scripts/install-dependencies.sh
step "kernel of the DAX guest" scripts/fetch-kernel.sh
step "lint" python3 tools/lint.py
step "format" scripts/format.sh --check

presets=(release asan tsan crash fuzz)
if [[ ${1:-} == --all ]]; then
    presets+=(dev clang)
fi
# The sanitizers, the simulator and the fuzzers need what the suite runs of them, and no more.
declare -A target=([asan]=suite [tsan]=suite [crash]=suite [fuzz]=suite)
for preset in "${presets[@]}"; do
    step "build $preset" build "$preset" "${target[$preset]:-all}"
done
step "build arm64" build arm64

mkdir -p build/suite
for preset in "${presets[@]}"; do
    echo "subdirs(\"../$preset\")"
done >build/suite/CTestTestfile.cmake
print_steps
say "tests"
ctest --test-dir build/suite --label-regex '^suite$' --parallel "$jobs" --output-on-failure --no-label-summary \
    --no-tests=error
