#!/usr/bin/env bash
# test.sh PROGRAM HEAP: each kind of map, and the queue; processes that change a map are killed at random moments.
set -euo pipefail
program=$1 heap=$2
rm -rf "$heap"
trap 'rm -rf "$heap" "$heap.said"' EXIT

fail() {
    echo "$*" >&2
    exit 1
}
# expect OUTPUT ARGUMENT...: what the program prints, its lines in one.
expect() {
    local expected=$1 found
    shift
    found=$("$program" "$heap" "$@" | paste -s -d ' ')
    [[ $found == "$expected" ]] || fail "$*: found '$found', expected '$expected'"
}
# kill_soon ARGUMENT...: kills the program within a tenth of a second. What it has printed is in $heap.said.
kill_soon() {
    : >"$heap.said"
    "$program" "$heap" "$@" >"$heap.said" &
    sleep 0.0$((RANDOM % 9 + 1))
    kill -KILL $! 2>/dev/null || true
    wait $! 2>/dev/null || true
}
# keys KIND: how many there are in a map whose structure is sound.
keys() {
    "$program" "$heap" "$1" check | cut -d ' ' -f 1
}

for kind in hash btree rbtree; do
    expect "3 1 2" "$kind" insert 3 30 1 10 2 20
    expect "10 30" "$kind" lookup 1 3
    expect "1 5" "$kind" insert 1 11 5 50
    expect "2" "$kind" remove 2 4
    [[ $("$program" "$heap" "$kind" print | sort -n | paste -s -d ' ') == "1 11 3 30 5 50" ]] || fail "$kind: print"
    ! "$program" "$heap" "$kind" lookup 2 2>/dev/null || fail "$kind: key 2 was removed"
    expect "1 3 5" "$kind" remove 1 3 5
    # Keys come in order, so what is there after a kill is 1 to N, and N is at least the last key that was printed.
    for _ in 1 2; do
        kill_soon "$kind" insert $(seq 30000 | awk '{ print $1, 2 * $1 }')
        said=$(tail -n 1 "$heap.said")
        there=$(keys "$kind")
        ((there >= ${said:-0})) || fail "$kind: $there keys, and $said was promised"
        seq "$there" | awk '{ print $1, 2 * $1 }' | cmp - <("$program" "$heap" "$kind" print | sort -n)
        kill_soon "$kind" remove $(seq "$there")
        said=$(tail -n 1 "$heap.said")
        left=$(keys "$kind")
        ((there - left >= ${said:-0})) || fail "$kind: $((there - left)) keys are gone, and $said was promised"
        "$program" "$heap" "$kind" remove $(seq "$there") >/dev/null
        expect "0 keys" "$kind" check
    done
done

expect "" queue insert first second third
expect "first second" queue remove 2
expect "third" queue print
kill_soon queue insert $(seq 20000)
there=$(($("$program" "$heap" queue print | wc -l) - 1))
{ echo third && seq "$there"; } | cmp - <("$program" "$heap" queue print)
echo "the maps and the queue survived"
