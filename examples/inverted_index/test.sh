#!/usr/bin/env bash
# test.sh PROGRAM DIRECTORY: two processes index, others find.
set -euo pipefail
program=$1 directory=$2
rm -rf "$directory" && mkdir -p "$directory" && cd "$directory"
trap 'rm -rf "$directory"' EXIT
echo 'The quick brown fox' >a.txt
echo 'the lazy dog, and the quick cat' >b.txt
echo 'A brown dog; quick!' >c.txt
"$program" index.hf add a.txt b.txt
"$program" index.hf add b.txt c.txt
expect() {
    found=$("$program" index.hf find "${@:2}" | tr '\n' ' ')
    [[ $found == "$1" ]] || { echo "$*: found '$found'" >&2; exit 1; }
}
expect 'a.txt b.txt c.txt ' quick
expect 'b.txt ' quick the dog
expect 'c.txt ' brown dog
expect '' quick unknown
if "$program" index.hf add nothing.txt 2>/dev/null; then echo 'a file that is not there' >&2; exit 1; fi
expect 'a.txt b.txt ' the
