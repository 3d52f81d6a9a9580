#!/usr/bin/env bash
# test.sh PROGRAM DIRECTORY: payments are killed at random moments; the accounts add up to the total all the same.
set -euo pipefail
set -m  # each worker is a process group of its own: a kill of the group leaves no child that could open the heap later
program=$1 heap=$2
rm -rf "$heap"
trap 'rm -rf "$heap"' EXIT
fail() { echo "bank: $*" >&2; exit 1; }
list() { "$program" "$heap" list; }
adds_up() { list | awk '/^total/ { exit sum + 0 != $2 + 0 } { sum += $2 }' || fail "$(list)"; }
"$program" "$heap" deposit anna 10000
"$program" "$heap" pay anna bert 2500
[[ $(list) == $'anna 7500\nbert 2500\ntotal 10000, transactions 2' ]] || fail "$(list)"
if "$program" "$heap" pay bert anna 2501 2>/dev/null; then
    fail "bert has paid what he does not have"
fi
adds_up
for _ in {1..12}; do
    (while :; do
        "$program" "$heap" pay anna bert 1 2>/dev/null || true
        "$program" "$heap" deposit clara 3 2>/dev/null || true
        "$program" "$heap" pay clara anna 2 2>/dev/null || true
    done) &
    worker=$!
    sleep 0.0$((RANDOM % 9 + 1))
    kill -KILL -- "-$worker"
    wait "$worker" 2>/dev/null || true
    # A program that was killed holds the heap until it has ended.
    for ((tries = 0; tries < 100; ++tries)); do
        list >/dev/null 2>&1 && break
        sleep 0.02
    done
    adds_up
done
list
