#!/usr/bin/env bash
# test.sh PROGRAM DIRECTORY: producers and workers are killed at random moments; no job is lost or counted twice.
set -euo pipefail
program=$1 heap=$2
rm -rf "$heap"
trap 'rm -rf "$heap"' EXIT
# kill_soon ARGUMENT...: runs the program on the heap and kills it within a tenth of a second.
kill_soon() {
    "$program" "$heap" "$@" &
    sleep 0.0$((RANDOM % 9 + 1))
    kill -KILL $! 2>/dev/null || true
    wait $! 2>/dev/null || true
}
jobs=0
for _ in 1 2 3 4; do
    # How many of them were added before the kill is what the queue says, and the numbers come in order.
    kill_soon add $(seq $((jobs + 1)) $((jobs + 10000)))
    kill_soon work
    read -r _ waiting _ done _ _ < <("$program" "$heap" status | tr -d ,)
    jobs=$((waiting + done))
done
"$program" "$heap" add $(seq $((jobs + 1)) $((jobs + 1000)))
"$program" "$heap" work
jobs=$((jobs + 1000))
expected=$(awk -v jobs="$jobs" 'BEGIN {
    for (i = 1; i <= jobs; ++i)
        for (n = i; n > 1; ++sum)
            n = n % 2 == 0 ? n / 2 : 3 * n + 1
    print "waiting 0, done " jobs ", sum " sum
}')
found=$("$program" "$heap" status)
[[ $found == "$expected" ]] || { echo "found '$found', expected '$expected'" >&2; exit 1; }
echo "$found"
