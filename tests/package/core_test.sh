#!/usr/bin/env bash
# core_test.sh SOURCE: the core alone. Of a copy of the tree without the folders and headers of the components it is
# configured, compiled and installed, and a program runs with it. So the core needs nothing of a component.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "core_test: $*" >&2; exit 1; }
step() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; fail "failed: $*"; }; }

mkdir "$work/tree"
cp -r "$source"/{CMakeLists.txt,LICENSE,cmake,include,packaging,src} "$work/tree"
rm -r "$work/tree"/src/{index,store,lmdb_file,malloc,cli,command_line,store_tools} "$work/tree"/include/lmdb \
    "$work/tree"/include/holdfast/{index,index.h,ordered_index.hpp,hash_index.hpp,check_indexes.hpp,compat} \
    "$work/tree"/include/holdfast/{store.hpp,store_in_heap.hpp,detail/store_in_heap.h}

step cmake -S "$work/tree" -B "$work/build" -DCMAKE_INSTALL_PREFIX="$work/prefix" -DCMAKE_BUILD_TYPE=None \
    -DHOLDFAST_BUILD_INDEX=OFF -DHOLDFAST_BUILD_MALLOC=OFF -DHOLDFAST_BUILD_STORE=OFF
step cmake --build "$work/build" --parallel 2
step cmake --install "$work/build"
more=$(find "$work/prefix" \( -name '*index*' -o -name '*store*' -o -name '*lmdb*' -o -name '*malloc.so*' \) -type f)
[[ -z $more ]] || fail "the core alone installs $more"

step c++ -std=c++20 "-I$work/prefix/include" "$source/examples/hello/hello.cpp" \
    "$(find "$work/prefix" -name libholdfast.a)" -pthread -o "$work/hello"
step "$work/hello" "$work/heap"
step "$work/hello" "$work/heap"

# A program that uses components is refused where one is left out, by a sentence.
! cmake -S "$source" -B "$work/cli" -DHOLDFAST_BUILD_STORE=OFF -DHOLDFAST_BUILD_CLI=ON >"$work/log" 2>&1 ||
    fail "the program is configured without the store"
tr -s ' \n' ' ' <"$work/log" | grep -qF "HOLDFAST_BUILD_CLI needs the components index, malloc and store" ||
    { tail -n 20 "$work/log"; fail "no sentence"; }
echo "core_test: the core compiles, installs and runs without its components"
