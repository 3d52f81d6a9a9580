#!/usr/bin/env bash
# test.sh AFTER BEFORE CONVERT WORK DOCUMENT: the ported program goes on with what the converter has copied. BEFORE and
# CONVERT are "none" where libpmemobj is not installed.
set -euo pipefail
after=$1 before=$2 convert=$3 work=$4 document=$5
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
fail() { echo "from_pmdk: $*" >&2; exit 1; }

# The page shows what is tested here.
for name in before after; do
    shown=$(sed -n "/^\/\* $name.c \*\/$/,/^\`\`\`$/p" "$document" | sed '1d;$d')
    [[ -n $shown ]] || fail "$document does not show $name.c"
    while IFS= read -r line; do
        grep -qF -- "$line" "$here/$name.c" || fail "$document shows of $name.c what is not there: $line"
    done <<<"$shown"
done

if [[ $before != none ]]; then
    "$before" "$work/pool" add 3 "buy milk" "feed the cat"
    "$before" "$work/pool" add 5 "port the program"
    "$convert" "$work/pool" "$work/heap.hf"
    [[ $("$after" "$work/heap.hf" list) == $("$before" "$work/pool" list) ]] || fail "the heap has other notes"
else
    echo "NOT TESTED HERE: the converter, without libpmemobj-dev"
    "$after" "$work/heap.hf" add 3 "buy milk" "feed the cat"
    "$after" "$work/heap.hf" add 5 "port the program"
fi
"$after" "$work/heap.hf" add 1 "sleep"
expected=$'1 sleep\n5 port the program\n3 feed the cat\n3 buy milk\n4 notes'
found=$("$after" "$work/heap.hf" list)
[[ $found == "$expected" ]] || fail "the heap has $found"
echo "from_pmdk: the ported program has all notes"
