#!/usr/bin/env bash
# test.sh COMMAND TOOLS DIRECTORY: an environment of LMDB with two databases goes through operate.sh, while another
# process writes to the store.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export HOLDFAST=$1 TOOLS=$2
work=$3
fail() { echo "lmdb_operator: $*" >&2; exit 1; }
rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
text() {
    printf 'VERSION=3\nformat=print\ntype=btree\nHEADER=END\n'
    for ((i = 0; i < $1; ++i)); do printf ' key %05d\n value %s %d\n' "$i" "$2" "$i"; done
    echo DATA=END
}
mkdir "$work/first"
text 2000 a | "$TOOLS/mdb_load" -s people "$work/first"
text 500 b | "$TOOLS/mdb_load" -s places "$work/first"
"$HOLDFAST" export "$work/first" "$work/lmdb" >/dev/null # a data file of LMDB 0.9
"$here/operate.sh" "$work/lmdb" "$work/store" >"$work/said"
grep -q '^items *2500$' "$work/said" || fail "not all was imported: $(cat "$work/said")"
grep -q '^holdfast_store_entries{.*} 2500$' "$work/said" || fail "the numbers are others: $(cat "$work/said")"

# Backups beside a writer: each is of one version, with its tenth of the entries as a whole.
(for round in 1 2 3 4 5; do text 2000 "c$round" | "$TOOLS/mdb_load" -s people "$work/store"; done) &
writer=$!
backups=0
while kill -0 $writer 2>/dev/null || ((backups == 0)); do
    backups=$((backups + 1))
    "$HOLDFAST" copy "$work/store" "$work/backup.$backups" >/dev/null
done
wait $writer
for ((i = 1; i <= backups; ++i)); do
    "$HOLDFAST" check "$work/backup.$i" >/dev/null || fail "backup $i is not sound"
    [[ $("$TOOLS/mdb_dump" -s people "$work/backup.$i" | grep -c '^ ') == 4000 ]] || fail "backup $i is not whole"
done
echo "lmdb_operator: imported, compared, watched; $backups backups beside a writer are sound"
