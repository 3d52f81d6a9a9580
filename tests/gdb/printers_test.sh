#!/usr/bin/env bash
# printers_test.sh PROGRAM PRINTERS: runs the program in gdb, and compares all that the printers show.
set -euo pipefail
program=$1 printers=$2
command -v gdb >/dev/null || { echo "NOT TESTED HERE: gdb is not installed"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
squares="holdfast::vector of length 5 = {0, 1, 4, 9, 16}"
hundreds=$(seq -s ', ' 0 299)
# What is printed, and the whole line that is expected; an address is ADDRESS.
cases=(
    numbers "$squares"
    nested "holdfast::vector of length 2 = {$squares, holdfast::vector of length 0}"
    short_text '"short"'
    long_text '"a text that does not fit into the string"'
    wide 'u"wide"'
    list "holdfast::list of length 5 = {10, 11, 12, 13, 14}"
    reference "holdfast::list of length 5 = {10, 11, 12, 13, 14}"
    texts "holdfast::list of length 1 = {$squares}"
    chain "holdfast::list of length 5 = {24, 23, 22, 21, 20}"
    deque "holdfast::deque of length 300 = {$hundreds}"
    none_of_it "holdfast::deque of length 0"
    ordered 'holdfast::map of length 5 = {["0"] = 30, ["1"] = 31, ["2"] = 32, ["3"] = 33, ["4"] = 34}'
    twice "holdfast::map of length 3 = {[1] = -1, [2] = -2, [2] = -2}"
    set "holdfast::set of length 300 = {$hundreds}"
    doubled "holdfast::set of length 3 = {1, 2, 2}"
    flat "holdfast::flat_map of length 5 = {[0] = 40, [1] = 41, [2] = 42, [3] = 43, [4] = 44}"
    flat_numbers "holdfast::flat_set of length 2 = {1, 2}"
    flat_twice "holdfast::flat_map of length 3 = {[1] = -1, [2] = -2, [2] = -2}"
    hashed "holdfast::unordered_map of length 1 = {[50] = 51}"
    hashed_numbers "holdfast::unordered_set of length 1 = {7}"
    few "holdfast::vector of length 3 = {1, 2, 2}"
    stable "holdfast::stable_vector of length 3 = {1, 2, 2}"
    pointer "(ptr<int>) ADDRESS = {* = 9}"
    nothing "(ptr<int>) null"
    to_pair "(ptr<(anonymous namespace)::pair_of_numbers>) ADDRESS = {* = {first = 3, second = 4}}"
    "*\$target(pointer)" 9
    "*\$target(to_pair)" "{first = 3, second = 4}"
    "\$target(to_pair)->second" 4
    "*pointer" 9
    "*to_pair" "{first = 3, second = 4}"
    "to_pair->second" 4
    "(*to_pair).first" 3
    "pointer[1]" 16
    "*pointer.get()" 9
    "to_pair.get()->first" 3
    "nothing.get()" "(int *) ADDRESS"
    number -5
    heap "holdfast::manager of PATH"
)
{
    echo "set print elements 0"
    echo "set width 0"
    echo "source $printers"
    echo "set may-call-functions off"
    echo "break stop_here"
    echo "run $work/heap.hf"
    echo "up"
    for ((i = 0; i < ${#cases[@]}; i += 2)); do
        echo "echo case $((i / 2)):"
        echo "output ${cases[i]}"
        echo 'echo \n'
    done
} >"$work/commands"
gdb -q -nx -batch -x "$work/commands" "$program" >"$work/said" 2>&1 || true
if grep -qE 'ptrace: Operation not permitted|Cannot PTRACE' "$work/said"; then
    echo "NOT TESTED HERE: this process may not trace another"
    exit 0
fi
# The path is known where the library has debug information.
path="of (\"$work/heap.hf\"|a heap \(core at ADDRESS\))"
sed -E "s/0x[0-9a-f]+/ADDRESS/g; s#$path#of PATH#" "$work/said" >"$work/lines"
for ((i = 0; i < ${#cases[@]}; i += 2)); do
    grep -qxF -- "case $((i / 2)):${cases[i + 1]}" "$work/lines" && continue
    grep -F "case $((i / 2)):" "$work/lines" || tail -n 40 "$work/said"
    echo "printers_test: ${cases[i]} is not shown as '${cases[i + 1]}'" >&2
    exit 1
done
echo "printers_test: $((${#cases[@]} / 2)) values are shown as they are"
