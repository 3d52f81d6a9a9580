#!/usr/bin/env bash
# debian_test.sh SOURCE: builds the Debian packages, asks lintian, unpacks them into an empty root, and builds and runs
# programs in C++ and C and, where the module was built, in Python from there.
set -euo pipefail
source=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "debian_test: $*" >&2; exit 1; }
command -v lintian >/dev/null && command -v dpkg-deb >/dev/null ||
    { echo "NOT TESTED HERE: lintian and dpkg-deb are not installed"; exit 0; }

"$source/scripts/debian.sh" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; fail "scripts/debian.sh"; }
packages=("$source"/build/debian/packages/*.deb)
((${#packages[@]} >= 4)) || fail "only ${packages[*]}"
found=$(lintian --allow-root "${packages[@]}") || fail "lintian: $found"
[[ -z $found ]] || fail "lintian: $found"
for package in "${packages[@]}"; do
    dpkg-deb -x "$package" "$work/root"
done

library=$(dirname "$(find "$work/root" -name 'libholdfast.so')")
export LD_LIBRARY_PATH=$library PKG_CONFIG_LIBDIR=$library/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root
for language in cxx c; do
    compile=(g++ -std=c++20 -O1)
    file=$here/consumer_cxx/consumer.cpp
    if [[ $language == c ]]; then
        compile=(gcc -std=c11)
        file=$here/consumer_c/consumer.c
    fi
    "${compile[@]}" "$file" "-I$work/root/usr/include" "-L$library" -lholdfast -pthread -o "$work/$language"
    "$work/$language" "$work/$language.hf"
done
"$work/root/usr/bin/holdfast" check --quick "$work/cxx.hf"
# The store has a library of the name that LMDB has: found where a program looks for it, and nowhere else.
g++ -std=c++20 -O1 "$source/examples/bank/bank.cpp" "-I$work/root/usr/include" \
    "-I$work/root/usr/include/holdfast/lmdb" "-L$library" "-L$library/lmdb" -lholdfast -llmdb -pthread -o "$work/bank"
LD_LIBRARY_PATH=$library:$library/lmdb "$work/bank" "$work/bank.hf" deposit anna 100
said=$(LD_LIBRARY_PATH=$library:$library/lmdb "$work/bank" "$work/bank.hf" list)
[[ $said == $'anna 100\ntotal 100, transactions 1' ]] || fail "the bank says '$said'"
# Where gdb looks for what belongs to a library: its whole path, below auto-load.
file=$(basename "$(readlink -f "$library/libholdfast.so")")
printers=$work/root/usr/share/gdb/auto-load${library#"$work/root"}/$file-gdb.py
[[ -f $printers ]] || fail "gdb would not find $printers"
man --warnings -l "$work/root/usr/share/man/man1/holdfast.1.gz" >/dev/null 2>"$work/man" || true
[[ ! -s $work/man ]] || fail "the manual page: $(cat "$work/man")"
modules=$work/root/usr/lib/python3/dist-packages
if [[ -d $modules/holdfast ]]; then
    if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
        PYTHONPATH=$modules /usr/bin/python3 -c "
import holdfast, numpy
with holdfast.open('$work/python.hf') as heap:
    heap['x'] = numpy.arange(10)
    heap['words'] = {str(i): i * i for i in range(100)}
    heap['list'] = [1, 'two', 3.5]
with holdfast.open('$work/python.hf', mode='r') as heap:
    assert heap['x'].sum() == 45"
        g++ -std=c++20 -O1 "$here/consumer_cxx/read_values.cpp" "-I$work/root/usr/include" "-L$library" -lholdfast \
            -pthread -o "$work/read-values"
        "$work/read-values" "$work/python.hf" || fail "C++ does not read what Python has written"
    else
        echo "debian_test: python3-numpy is not installed, so python3-holdfast was not run"
    fi
fi
echo "debian_test: ${#packages[@]} packages that lintian accepts; programs in C++ and C work with them"
