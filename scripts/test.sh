#!/usr/bin/env bash
# The suite of every commit: what finds faults in minutes. Two builds: `release`, what a user installs, for the package,
# the examples and the programs that must not compile; `crash`, with assertions and mutants compiled in, for all other
# tests. One CTest run takes, of both, the tests of the tier `quick` (cmake/holdfast_tests.cmake).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
step "packages of Debian that the suite needs" scripts/install-dependencies.sh test
compiling=$SECONDS
step "what a user installs, compiled" build release -DHOLDFAST_BUILD_TESTS=ON quick
step "the tests, compiled" build crash quick
compiling=$((SECONDS - compiling))
start=$SECONDS
say "the tests"
run_tests quick release crash || failed=$?
running=$((SECONDS - start))
mkdir -p build/quick
echo "$running" >build/quick/seconds
list_not_tested build/quick/junit.xml
print_steps
printf '%5d s  compiling, %d s of tests, %d s in all\n' "$compiling" "$running" "$SECONDS"
exit "${failed:-0}"
