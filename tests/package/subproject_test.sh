#!/usr/bin/env bash
# subproject_test.sh SOURCE GENERATOR: a project that takes Holdfast in with FetchContent, and one that does so
# with add_subdirectory. Each builds its program and the library; no test, benchmark, example or tool of ours is built,
# and neither CTest nor `install` of that project has anything of ours that it did not ask for.
set -euo pipefail
source=$1 generator=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "subproject_test: $*" >&2; exit 1; }

cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(subproject LANGUAGES C CXX)
enable_testing()
if(BY_FETCH)
    include(FetchContent)
    FetchContent_Declare(holdfast SOURCE_DIR "$source")
    FetchContent_MakeAvailable(holdfast)
else()
    add_subdirectory("$source" holdfast EXCLUDE_FROM_ALL)
endif()
add_executable(consumer "$here/consumer_cxx/consumer.cpp")
target_link_libraries(consumer PRIVATE holdfast::holdfast)
END
for by_fetch in ON OFF; do
    tree=$work/build-$by_fetch
    CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 cmake -S "$work" -B "$tree" -G "$generator" -DBY_FETCH=$by_fetch \
        -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 ||
        { tail -n 30 "$work/log"; fail "configure, BY_FETCH=$by_fetch"; }
    CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 cmake --build "$tree" --parallel 2 >"$work/log" 2>&1 ||
        { tail -n 30 "$work/log"; fail "build, BY_FETCH=$by_fetch"; }
    program=$(find "$tree" -name consumer -type f)
    "$program" "$work/heap-$by_fetch.hf" || fail "the program, BY_FETCH=$by_fetch"
    extra=$(find "$tree" -type f -perm -u+x ! -name "*.so*" ! -name "*.sh" \
        \( -name "*_test" -o -name "*_bench" -o -name "holdfast*" -o -name hello \))
    [[ -z $extra ]] || fail "was built besides the library: $extra"
    ctest --test-dir "$tree" -N | grep -q "^Total Tests: 0$" || fail "the CTest of the project has tests of ours"
done
echo "subproject_test: FetchContent and add_subdirectory build the library and nothing else of ours"
