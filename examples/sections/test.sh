#!/usr/bin/env bash
# test.sh PROGRAM HEAP: each program in two processes, and killed twenty times, ends as in one that nobody stops.
set -euo pipefail
program=$1 heap=$2
trap 'rm -rf "$heap" "$heap.whole"' EXIT
for kind in n-queens cholesky barnes-hut documents; do
    rm -rf "$heap" "$heap.whole"
    if [[ $kind == documents ]] && ! grep -q documents <<<"$("$program" 2>&1 || true)"; then
        echo "NOT TESTED HERE: documents, without cJSON (libcjson-dev)"
        continue
    fi
    expected=$("$program" "$heap.whole" "$kind" 2>/dev/null)
    "$program" "$heap" "$kind" 10 >/dev/null 2>&1
    for _ in {1..20}; do
        "$program" "$heap" "$kind" 40 >/dev/null 2>&1 &
        for ((turn = RANDOM % 800; turn > 0; --turn)); do :; done # as sleep would, but for less than a millisecond
        kill -KILL $! 2>/dev/null || true
        wait $! 2>/dev/null || true
    done
    found=$("$program" "$heap" "$kind" 2>"$heap/said")
    [[ $found == "$expected" ]] || { echo "$kind: found '$found', expected '$expected'" >&2; exit 1; }
    grep -qE 'after [1-9][0-9]* sections' "$heap/said" || { echo "$kind began anew" >&2; exit 1; }
done
echo "all programs went on"
