#!/usr/bin/env bash
# The suite, as CI runs it. Each preset is built, warnings as errors; then one CTest run over all of them takes, of each
# preset, the tests labelled `suite` (cmake/holdfast_tests.cmake says which those are). Names bear the preset:
# `asan.heap_test`. Any failure makes the exit status non-zero.
#   scripts/test.sh          the presets dev, release and crash
#   scripts/test.sh --all    and asan, tsan, clang with clang-tidy, fuzz, arm64
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
step "dependencies" scripts/install-dependencies.sh
step "lint" python3 tools/lint.py
step "format" scripts/format.sh --check

presets=(dev release crash)
if [[ ${1:-} == --all ]]; then
    presets+=(asan tsan clang fuzz)
fi
# Where all files must compile cleanly, everything is built; elsewhere only what the suite runs.
declare -A target=([tsan]=suite [crash]=suite [fuzz]=suite)
for preset in "${presets[@]}"; do
    step "build $preset" build "$preset" "${target[$preset]:-all}"
done
if [[ ${1:-} == --all ]]; then
    step "build arm64" build arm64
fi

mkdir -p build/suite
for preset in "${presets[@]}"; do
    echo "subdirs(\"../$preset\")"
done >build/suite/CTestTestfile.cmake
print_steps
say "tests"
ctest --test-dir build/suite --label-regex '^suite$' --parallel "$jobs" --output-on-failure --no-label-summary \
    --no-tests=error
