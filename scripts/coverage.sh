#!/usr/bin/env bash
# Builds the preset coverage, runs its tests and prints line and branch coverage of src/ by file.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/install-dependencies.sh coverage
build coverage suite
rm -rf build/coverage/profile
ctest --preset coverage --parallel "$jobs"
llvm-profdata-16 merge -sparse build/coverage/profile/*.profraw -o build/coverage/all.profdata
objects=()
for program in build/coverage/tests/bin/*; do
    objects+=(-object "$program")
done
llvm-cov-16 report "${objects[@]}" -instr-profile build/coverage/all.profdata \
    -ignore-filename-regex '(_test|_bench|_fuzz)\.cpp$|^/usr/|/tests/'
