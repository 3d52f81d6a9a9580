#!/usr/bin/env bash
# package_test.sh BUILD-DIRECTORY VERSION
set -euo pipefail
build=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "package_test: $*" >&2; exit 1; }
cached() { sed -n "s/^$1:[^=]*=//p" "$build/CMakeCache.txt"; }

cmake --install "$build" --prefix "$work/first" >"$work/install.log"
# The package works wherever the tree lies: move it, so that a path that was written into it is dead.
mv "$work/first" "$work/prefix"
prefix=$work/prefix

# Nothing internal is installed.
internal=$(find "$prefix/include" -type f ! -path "$prefix/include/holdfast/*" ! -name 'holdfast.h')
[[ -z $internal ]] || fail "installed besides the public headers: $internal"
source=$(dirname "$(dirname "$here")")
if leaks=$(grep -rlF -e "$build" -e "$source" --include='*.cmake' --include='*.pc' --include='*.h*' "$prefix"); then
    fail "names the build machine: $leaks"
fi

compiler=$(cached CMAKE_CXX_COMPILER)
cmake -S "$here/consumer" -B "$work/by-cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_BUILD_TYPE=Release >"$work/cmake.log" || { cat "$work/cmake.log"; fail "find_package"; }
cmake --build "$work/by-cmake" >"$work/cmake.log" 2>&1 || { cat "$work/cmake.log"; fail "build with CMake"; }
"$work/by-cmake/consumer" "$work/one.hf"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name holdfast.pc)")
export PKG_CONFIG_PATH
found=$(pkg-config --modversion holdfast)
[[ $found == "$version" ]] || fail "pkg-config names version $found, not $version"
# shellcheck disable=SC2046 # flags are words
"$compiler" -std=c++20 -O2 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags holdfast) \
    "$here/consumer/consumer.cpp" $(pkg-config --libs holdfast) -o "$work/by-pkg-config"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir holdfast) "$work/by-pkg-config" "$work/two.hf"

# A program that links fmt, too (Debian has no static library of it: its one file, compiled here), is linked: of all
# that our library has, nothing is defined twice.
# shellcheck disable=SC2046 # flags are words
"$compiler" -std=c++20 -O1 $(pkg-config --cflags holdfast) "$here/consumer/with_fmt.cpp" \
    "$source/src/base/fmt.cpp" -Wl,--whole-archive $(pkg-config --libs holdfast) -Wl,--no-whole-archive \
    -o "$work/with-fmt"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir holdfast) "$work/with-fmt" "$work/two.hf" || fail "a program with fmt"

# The malloc: found by its name where the loader looks, and from the installed place; nothing of the build is asked.
preload=$(find "$prefix" -name 'libholdfast-malloc.so*' -type f)
[[ -n $preload ]] || fail "no libholdfast-malloc.so is installed"
if readelf -d "$preload" | grep -E 'R(UN)?PATH' | grep -F -e "$build" -e "$source"; then
    fail "libholdfast-malloc.so looks for libraries in the build"
fi
said=$(HOLDFAST_MALLOC_HEAP=$work/sh.hf LD_PRELOAD=$preload sh -c 'echo here; exit 7') && fail "sh: status 0"
[[ $? == 7 && $said == here ]] || fail "sh with libholdfast-malloc.so says '$said'"
[[ -d $work/sh.hf ]] || fail "sh did not use libholdfast-malloc.so"
LD_LIBRARY_PATH=$(dirname "$preload") HOLDFAST_MALLOC_STATS=1 LD_PRELOAD=libholdfast-malloc.so \
    "$work/by-cmake/consumer" "$work/three.hf" 2>"$work/malloc.log"
grep -q 'bytes of user space' "$work/malloc.log" || fail "the consumer did not use libholdfast-malloc.so"
HOLDFAST_MALLOC_HEAP=$work/malloc.hf LD_PRELOAD=$preload "$work/by-cmake/consumer" "$work/four.hf"
"$prefix/bin/holdfast" check "$work/malloc.hf" || fail "the heap of the malloc is not sound"
echo "package_test: libholdfast-malloc.so works"
echo "package_test: find_package and pkg-config work"
