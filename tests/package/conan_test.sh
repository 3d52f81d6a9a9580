#!/usr/bin/env bash
# conan_test.sh SOURCE WORK: makes the package with Conan's client, and builds and runs a program with it. Boost, fmt
# and xxHash are those of the system, so no other package is fetched.
set -euo pipefail
source=$1 work=$2
mkdir -p "$work"
fail() { tail -n 30 "$work/log"; echo "conan_test: $*" >&2; exit 1; }
/usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null ||
    { echo "NOT TESTED HERE: python3 has no venv (python3-venv)"; exit 0; }
/usr/bin/python3 -m venv "$work/environment"
"$work/environment/bin/pip" install --quiet 'conan>=2' >"$work/log" 2>&1 ||
    { echo "NOT TESTED HERE: pip cannot install conan: $(tail -n 1 "$work/log")"; exit 0; }
export CONAN_HOME=$work/home CCACHE_BASEDIR=$work/home CCACHE_NOHASHDIR=1
conan=$work/environment/bin/conan
"$conan" profile detect --force >"$work/log" 2>&1 || fail "conan profile detect"
"$conan" create "$source/packaging/conan" --no-remote -s compiler.cppstd=20 -o 'holdfast/*:system_dependencies=True' \
    -c "tools.cmake.cmake_layout:test_folder=$work/test" >"$work/log" 2>&1 || fail "conan create"
grep -q 'consumer: the vector is there' "$work/log" || fail "the program did not run"
rm -rf "$work/home/p"
echo "conan_test: conan create builds the package, and a program with it"
