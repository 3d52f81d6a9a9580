#!/usr/bin/env bash
# headers_test.sh BUILD-DIRECTORY COMPILER all|each: installs the build, and links what the public headers declare with
# libholdfast.a and with libholdfast.so: a program that includes all headers and instantiates their templates; `each`:
# also one for each header.
set -euo pipefail
build=$1 compiler=$2 which=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { [[ ! -s $work/log ]] || tail -n 30 "$work/log"; echo "headers_test: $*" >&2; exit 1; }
command -v "$compiler" >/dev/null || { echo "NOT TESTED HERE: $compiler is not installed"; exit 0; }
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" --strip >"$work/log" 2>&1 || fail "install"
library=$(dirname "$(find "$prefix" -name 'libholdfast.so')")
flags=(-std=c++20 -O0 "-I$prefix/include" "-I$prefix/include/holdfast/lmdb")
store=("-L$library/lmdb" -llmdb "-Wl,-rpath,$library/lmdb" -pthread)

# links NAME: the object with both libraries.
links() {
    "$compiler" "$work/$1.o" "$library/libholdfast.a" "${store[@]}" -o "$work/$1-static" >"$work/log" 2>&1 ||
        fail "$1 does not link with libholdfast.a"
    "$compiler" "$work/$1.o" "-L$library" -lholdfast "-Wl,-rpath,$library" "${store[@]}" -o "$work/$1-shared" \
        >"$work/log" 2>&1 || fail "$1 does not link with libholdfast.so"
}

mapfile -t headers < <(cd "$prefix/include" && find holdfast -name '*.h*' ! -path '*/lmdb/*' | sort)
((${#headers[@]} > 40)) || fail "only ${#headers[@]} headers are installed"
{
    printf '#include <%s>\n' "${headers[@]}"
    cat "$here/consumer_cxx/instantiations.cpp"
} >"$work/all.cpp"
"$compiler" "${flags[@]}" -c "$work/all.cpp" -o "$work/all.o" >"$work/log" 2>&1 || fail "all headers in one program"
links all
"$work/all-static" "$work/static.hf" >"$work/log" 2>&1 || fail "the program with libholdfast.a"
"$work/all-shared" "$work/shared.hf" >"$work/log" 2>&1 || fail "the program with libholdfast.so"

# What the list of exports names is there: nothing is declared that no file defines.
nm --dynamic --defined-only --demangle "$library/libholdfast.so" | cut -d ' ' -f 3- >"$work/symbols"
while read -r pattern; do
    # The linker's patterns are those of the shell.
    found=
    while IFS= read -r symbol; do
        # shellcheck disable=SC2053
        [[ ${symbol%@@*} != $pattern ]] || { found=yes && break; }
    done <"$work/symbols"
    [[ -n $found ]] || fail "a public header declares $pattern, which libholdfast.so does not have"
done < <(grep -E '^ {12}holdfast::.*;$' "$here/../../src/api/exports.map" | tr -d '";' | sed 's/^ *//')

if [[ $which == each ]]; then
    for header in "${headers[@]}"; do
        [[ $header != */detail/* ]] || continue # programs include them through others
        name=${header//[\/.]/_}
        printf '#include <%s>\nint main() {}\n' "$header" >"$work/$name.cpp"
        "$compiler" "${flags[@]}" -c "$work/$name.cpp" -o "$work/$name.o" >"$work/log" 2>&1 || fail "$header"
        links "$name"
        rm "$work/$name.o" "$work/$name-static" "$work/$name-shared"
    done
fi
echo "headers_test: programs of ${#headers[@]} public headers link with both libraries ($compiler, $which)"
