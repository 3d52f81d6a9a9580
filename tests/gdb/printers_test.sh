#!/usr/bin/env bash
# printers_test.sh PROGRAM PRINTERS: runs the program in gdb, and compares what the printers show.
set -euo pipefail
program=$1 printers=$2
command -v gdb >/dev/null || { echo "NOT TESTED HERE: gdb is not installed"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names=(numbers nested short_text long_text list chain deque ordered set flat hashed pointer nothing heap)
{
    echo "set print elements 0"
    echo "source $printers"
    echo "break stop_here"
    echo "run $work/heap.hf"
    echo "up"
    for name in "${names[@]}"; do
        echo "output $name"
        echo 'echo \n'
    done
} >"$work/commands"
gdb -q -nx -batch -x "$work/commands" "$program" >"$work/said" 2>&1 || true
if grep -qE 'ptrace: Operation not permitted|Cannot PTRACE' "$work/said"; then
    echo "NOT TESTED HERE: this process may not trace another"
    exit 0
fi
deque=$(seq -s ', ' 0 299)
expected=(
    "holdfast::vector of length 5 = {0, 1, 4, 9, 16}"
    "holdfast::vector of length 2 = {holdfast::vector of length 5 = {0, 1, 4, 9, 16}, holdfast::vector of length 0}"
    '"short"'
    '"a text that does not fit into the string"'
    "holdfast::list of length 5 = {10, 11, 12, 13, 14}"
    "holdfast::list of length 5 = {24, 23, 22, 21, 20}"
    "holdfast::deque of length 300 = {$deque}"
    'holdfast::map of length 5 = {["0"] = 30, ["1"] = 31, ["2"] = 32, ["3"] = 33, ["4"] = 34}'
    "holdfast::set of length 300 = {$deque}"
    "holdfast::flat_map of length 5 = {[0] = 40, [1] = 41, [2] = 42, [3] = 43, [4] = 44}"
    "holdfast::unordered_map of length 1 = {[50] = 51}"
    "= {* = 9}"
    "(ptr<int>) null"
    "holdfast::manager of "
)
for line in "${expected[@]}"; do
    grep -qF -- "$line" "$work/said" || { tail -n 40 "$work/said"; echo "printers_test: no '$line'" >&2; exit 1; }
done
echo "printers_test: ${#expected[@]} values are shown as they are"
