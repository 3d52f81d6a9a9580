#!/usr/bin/env bash
# configure_test.sh SOURCE: what CMake does on machines that lack something, or have it in part. Each lack is made by a
# directory that CMake looks into first, so that no package of this machine has to go.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "configure_test: $*" >&2; exit 1; }
configure() { cmake -S "$source" -B "$work/build" "$@" >"$work/log" 2>&1; }

# Debian's libgtest-dev without libgmock-dev: GTest is found, and has no gmock.
mkdir -p "$work/gtest" "$work/broken" "$work/old/fmt" "$work/no-gmp"
cat >"$work/gtest/GTestConfig.cmake" <<'END'
foreach(name gtest gtest_main)
    add_library(GTest::${name} INTERFACE IMPORTED)
endforeach()
END
cat >"$work/gtest/GTestConfigVersion.cmake" <<'END'
set(PACKAGE_VERSION 1.12.1)
set(PACKAGE_VERSION_COMPATIBLE TRUE)
END
configure "-DGTest_DIR=$work/gtest" || { tail -n 20 "$work/log"; fail "cmake -B build fails beside libgtest-dev"; }
! grep -rqE '_test\b' "$work/build/CMakeFiles/TargetDirectories.txt" || fail "tests are configured unasked"
! grep -q '/bench' "$work/build/CMakeFiles/TargetDirectories.txt" || fail "benchmarks are configured unasked"

# refused SENTENCE OPTION...: the configuration ends with this sentence, and says nothing else that is wrong.
refused() {
    local sentence=$1
    shift
    rm -f "$work/build/CMakeCache.txt"
    ! configure "$@" || fail "configured, in spite of $*"
    tr -s ' \n' ' ' <"$work/log" | grep -qF "$sentence" || { tail -n 20 "$work/log"; fail "no sentence '$sentence'"; }
    [[ $(grep -c '^CMake Error' "$work/log") == 1 ]] || { cat "$work/log"; fail "more than one error: $*"; }
}
refused "for the tests: what CMake finds has no target GTest::gmock. Debian has it in the package libgmock-dev." \
    -DHOLDFAST_BUILD_TESTS=ON "-DGTest_DIR=$work/gtest"
# A library that was removed, and its description left.
sed 's/INTERFACE IMPORTED/STATIC IMPORTED/' "$work/gtest/GTestConfig.cmake" >"$work/broken/GTestConfig.cmake"
# shellcheck disable=SC2016 # for CMake
echo 'set_target_properties(GTest::gtest PROPERTIES IMPORTED_LOCATION /none/libgtest.a)' \
    >>"$work/broken/GTestConfig.cmake"
cp "$work/gtest/GTestConfigVersion.cmake" "$work/broken"
refused "its file /none/libgtest.a is missing. Debian has it in the package libgtest-dev." \
    -DHOLDFAST_BUILD_TESTS=ON "-DGTest_DIR=$work/broken"
# A version that is too old, and a header that is not there.
echo '#define FMT_VERSION 80101' >"$work/old/fmt/core.h"
touch "$work/old/fmt/format.h"
refused "fmt/format.h has version '8.1.1'. Debian has it in the package libfmt-dev." "-DHOLDFAST_fmt_INCLUDE=$work/old"
refused "its header xxhash.h is not found. Debian has it in the package libxxhash-dev." \
    "-DHOLDFAST_xxHash_INCLUDE=$work/old"
refused "CMake does not find it. Debian has it in the package libgmp-dev." \
    -DHOLDFAST_BUILD_BENCH=ON -DCMAKE_DISABLE_FIND_PACKAGE_GMP=ON
echo "configure_test: tests and benchmarks are configured when they are asked for; what lacks is named in one sentence"
