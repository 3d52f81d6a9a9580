#!/usr/bin/env bash
# package_test.sh BUILD-DIRECTORY VERSION
set -euo pipefail
build=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "package_test: $*" >&2; exit 1; }
cached() { sed -n "s/^$1:[^=]*=//p" "$build/CMakeCache.txt"; }
# logged WHAT COMMAND...: shows what the command printed only where it fails.
logged() {
    local what=$1
    shift
    "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; fail "$what"; }
}

logged "install" cmake --install "$build" --prefix "$work/first" --strip
# The package works wherever the tree lies: move it, so that a path that was written into it is dead.
mv "$work/first" "$work/prefix"
prefix=$work/prefix

# Nothing internal is installed, nothing of the machine that built it, and nothing that only a debugger reads.
internal=$(find "$prefix/include" -type f ! -path "$prefix/include/holdfast/*" ! -name 'holdfast.h')
[[ -z $internal ]] || fail "installed besides the public headers: $internal"
source=$(dirname "$(dirname "$here")")
if leaks=$(grep -rlF -e "$build" -e "$source" --include='*.cmake' --include='*.pc' --include='*.h*' "$prefix"); then
    fail "names the build machine: $leaks"
fi
library=$(find "$prefix" -name "libholdfast.so.$version")
[[ -n $library ]] || fail "no libholdfast.so.$version is installed"
for file in "$prefix/bin/holdfast" "$library" "$(find "$prefix" -name '*.a')"; do
    ! readelf --sections --wide "$file" 2>/dev/null | grep -q '\.debug_info' || fail "debug information in $file"
done

# The shared library has the soname of its minor version, and shows what the public headers declare: the functions of C,
# and the classes of holdfast, none of them of an inner layer.
soname=$(readelf -d "$library" | sed -n 's/.*Library soname: \[\(.*\)\]/\1/p')
[[ $soname == "libholdfast.so.${version%.*}" ]] || fail "the soname is '$soname'"
nm --dynamic --defined-only "$library" >"$work/symbols" # addresses, types, names with @@ and their version
shown=$(awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' "$work/symbols" | c++filt |
    sed 's/^\(typeinfo name\|typeinfo\|vtable\) for //' | grep -vE '^(hf_[a-z_]+$|holdfast::)' || true)
[[ -z $shown ]] || fail "libholdfast.so shows $shown"
shown=$(c++filt <"$work/symbols" | awk '{ print $3 }' |
    grep -E '^holdfast::(base|persist|segment|lane|extent|slab|heap|c_api)::' || true)
[[ -z $shown ]] || fail "libholdfast.so shows of the inner layers $shown"
for header in holdfast.h transaction.h; do
    while read -r function; do
        grep -q " T $function@@" "$work/symbols" || fail "libholdfast.so does not show $function of $header"
    done < <(grep -oE '\bhf_[a-z_]+\(' "$prefix/include/holdfast/$header" | tr -d '(' | sort -u)
done

# gdb finds the printers under any prefix.
if command -v gdb >/dev/null; then
    gdb -nx -batch -iex "add-auto-load-safe-path $prefix" -ex "info pretty-printer" "$library" >"$work/gdb" 2>&1 || true
    grep -qx '  holdfast' "$work/gdb" || fail "gdb loads no printers: $(tail -n 5 "$work/gdb")"
else
    echo "NOT TESTED HERE: gdb is not installed"
fi

# find_package: C++ and C, with each of the two libraries.
compiler=$(cached CMAKE_CXX_COMPILER)
c_compiler=$(cached CMAKE_C_COMPILER)
for shared in OFF ON; do
    for language in cxx c; do
        tree=$work/$language-$shared
        logged "find_package, $language, shared $shared" cmake -S "$here/consumer_$language" -B "$tree" \
            -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="$c_compiler" \
            -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=$shared
        logged "build with CMake, $language, shared $shared" cmake --build "$tree"
        "$tree/consumer" "$work/$language-$shared.hf"
    done
done
(($(stat --format %s "$work/cxx-ON/consumer") < 500000)) || fail "the program with the shared library is not small"

# pkg-config: finds the shared library, where the loader does not look, too.
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name holdfast.pc)")
export PKG_CONFIG_PATH
found=$(pkg-config --modversion holdfast)
[[ $found == "$version" ]] || fail "pkg-config names version $found, not $version"
# shellcheck disable=SC2046 # flags are words
"$compiler" -std=c++20 -O2 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags holdfast) \
    "$here/consumer_cxx/consumer.cpp" $(pkg-config --libs holdfast) -o "$work/by-pkg-config"
"$work/by-pkg-config" "$work/two.hf"
# shellcheck disable=SC2046
"$c_compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror "$here/consumer_c/consumer.c" \
    $(pkg-config --cflags --libs holdfast) -o "$work/c-by-pkg-config"
"$work/c-by-pkg-config" "$work/two-c.hf"
# A C program with the static library: what --static adds is the C++ runtime.
# shellcheck disable=SC2046
"$c_compiler" -std=c11 "$here/consumer_c/consumer.c" $(pkg-config --cflags holdfast) \
    "$(pkg-config --variable=libdir holdfast)/libholdfast.a" $(pkg-config --libs --static holdfast) \
    -o "$work/c-static"
"$work/c-static" "$work/three-c.hf"

# The store, alone and in a heap: a library and a target of its own.
mkdir "$work/store"
cp "$source/examples/bank/bank.cpp" "$work/store"
cat >"$work/store/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(bank LANGUAGES CXX)
find_package(holdfast 0.1 REQUIRED)
add_executable(bank bank.cpp)
target_link_libraries(bank PRIVATE holdfast::holdfast holdfast::lmdb)
END
logged "find_package of the store" cmake -S "$work/store" -B "$work/store/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release
logged "build of the store's program with CMake" cmake --build "$work/store/build"
# shellcheck disable=SC2046 # flags are words
"$compiler" -std=c++20 -O1 -Wall -Wextra -Werror $(pkg-config --cflags holdfast holdfast-lmdb) "$work/store/bank.cpp" \
    $(pkg-config --libs holdfast holdfast-lmdb) -o "$work/store/bank"
for bank in "$work/store/build/bank" "$work/store/bank"; do
    "$bank" "$work/bank.hf" deposit anna 100
done
said=$("$work/store/bank" "$work/bank.hf" list)
[[ $said == $'anna 200\ntotal 200, transactions 2' ]] || fail "the bank says '$said'"

# Another standard is refused in one sentence, by each header. Those of the store include lmdb.h.
read -ra store_flags < <(pkg-config --cflags-only-I holdfast-lmdb)
for header in "$prefix"/include/holdfast/*.hpp "$prefix"/include/holdfast/compat/*.hpp; do
    echo "#include <${header#"$prefix/include/"}>" >"$work/old.cpp"
    if "$compiler" -std=c++17 "-I$prefix/include" "${store_flags[@]}" -fsyntax-only "$work/old.cpp" \
        2>"$work/old.log"; then
        fail "$(basename "$header") compiles as C++17"
    fi
    grep -q 'Holdfast needs C++20: compile with -std=c++20' "$work/old.log" || fail "$header: no word of C++20"
    (($(wc -l <"$work/old.log") < 20)) || fail "$header says more than that it needs C++20"
done

# A program that links fmt, too (Debian has no static library of it: its one file, compiled here), is linked: of all
# that our library has, nothing is defined twice.
# shellcheck disable=SC2046 # flags are words
"$compiler" -std=c++20 -O1 $(pkg-config --cflags holdfast) "$here/consumer_cxx/with_fmt.cpp" \
    "$source/src/base/fmt.cpp" -Wl,--whole-archive "$(pkg-config --variable=libdir holdfast)/libholdfast.a" \
    -Wl,--no-whole-archive -o "$work/with-fmt"
"$work/with-fmt" "$work/two.hf" || fail "a program with fmt"

# The malloc: found by its name where the loader looks, and from the installed place; nothing of the build is asked.
preload=$(find "$prefix" -name 'libholdfast-malloc.so*' -type f)
[[ -n $preload ]] || fail "no libholdfast-malloc.so is installed"
if readelf -d "$preload" | grep -E 'R(UN)?PATH' | grep -F -e "$build" -e "$source"; then
    fail "libholdfast-malloc.so looks for libraries in the build"
fi
replaced='malloc|calloc|realloc|reallocarray|free|cfree|memalign|aligned_alloc|posix_memalign|valloc|pvalloc'
shown=$(nm --dynamic --defined-only "$preload" | awk '{ print $3 }' |
    grep -vE "^($replaced|malloc_usable_size|_Z(nw|na|dl|da).*)\$" || true)
[[ -z $shown ]] || fail "libholdfast-malloc.so shows $shown"
said=$(HOLDFAST_MALLOC_HEAP=$work/sh.hf LD_PRELOAD=$preload sh -c 'echo here; exit 7') && fail "sh: status 0"
[[ $? == 7 && $said == here ]] || fail "sh with libholdfast-malloc.so says '$said'"
[[ -d $work/sh.hf ]] || fail "sh did not use libholdfast-malloc.so"
LD_LIBRARY_PATH=$(dirname "$preload") HOLDFAST_MALLOC_STATS=1 LD_PRELOAD=libholdfast-malloc.so \
    "$work/cxx-OFF/consumer" "$work/three.hf" 2>"$work/malloc.log"
grep -q 'bytes of user space' "$work/malloc.log" || fail "the consumer did not use libholdfast-malloc.so"
HOLDFAST_MALLOC_HEAP=$work/malloc.hf LD_PRELOAD=$preload "$work/cxx-OFF/consumer" "$work/four.hf"
"$prefix/bin/holdfast" check --quick "$work/malloc.hf" || fail "the heap of the malloc is not sound"
echo "package_test: find_package and pkg-config work, in C++ and in C; libholdfast-malloc.so works"
