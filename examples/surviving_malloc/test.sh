#!/usr/bin/env bash
# test.sh PROGRAM COMMAND DIRECTORY: the program is killed at random moments; the list is whole at each start, and of
# what was allocated and freed nothing is lost.
set -euo pipefail
program=$1 command=$2 heap=$3
rm -rf "$heap"
trap 'rm -rf "$heap"' EXIT
fail() { echo "surviving_malloc: $*" >&2; exit 1; }
"$program" "$heap" push one two three
"$program" "$heap" pop
[[ $("$program" "$heap" list 2>/dev/null | tr '\n' ' ') == "two one " ]] || fail "the list is another"
kill_soon() {
    "$program" "$heap" "$@" &
    sleep 0.0$((RANDOM % 9 + 1))
    kill -KILL $! 2>/dev/null || true
    wait $! 2>/dev/null || true
}
for _ in 1 2 3 4; do
    kill_soon push $(seq 1 10000)
    kill_soon pop 5
done
"$program" "$heap" push last
lines=$("$program" "$heap" list 2>"$heap.said" | wc -l)
((lines > 1)) || fail "there are $lines lines"
[[ $(cat "$heap.said") == "$lines lines" ]] || fail "$lines lines are there, and it counts $(cat "$heap.said")"
rm "$heap.said"
"$program" "$heap" pop "$lines"
"$command" check "$heap" >/dev/null || fail "the heap is not sound"
# The object with the list is what is left.
"$command" leaks "$heap" >/dev/null || fail "blocks were lost"
echo "surviving_malloc: $lines lines were left by 8 kills, and nothing else"
