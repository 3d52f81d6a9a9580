#!/usr/bin/env bash
# operate.sh LMDB STORE: what somebody does who operates a program on LMDB, and moves it to Holdfast's liblmdb.so.0: the
# data are imported, compared, backed up while the program writes, watched, and can go back. HOLDFAST (default:
# holdfast) is the command, TOOLS the directory of mdb_dump and its kin (default: beside it, in ../libexec/holdfast).
set -euo pipefail
lmdb=$1 store=$2
holdfast=${HOLDFAST:-holdfast}
tools=${TOOLS:-$(dirname "$(command -v "$holdfast")")/../libexec/holdfast}

echo "1. Import: the store appears when all is in it, or not at all. No program may write to $lmdb meanwhile."
"$holdfast" import "$lmdb" "$store"

echo "2. Compare: both as text, but for the sizes in the head."
content() { "$tools/mdb_dump" -a "$1" | grep -v '^mapsize=\|^maxreaders='; }
"$holdfast" export "$store" "$store.exported"
cmp <(content "$store") <(content "$store.exported")
"$holdfast" check "$store"

echo "3. Start the program: LD_LIBRARY_PATH=.../holdfast program, with $store in the place of $lmdb."

echo "4. Back up, beside the program: a copy of one version."
"$holdfast" copy "$store" "$store.backup"
"$holdfast" check "$store.backup"

echo "5. Watch: for Prometheus, 'holdfast exporter $store', or once:"
"$holdfast" metrics "$store" | grep -v '^#'

echo "6. Go back: $store.exported is LMDB's data file, and a later 'holdfast export' writes the newest version."
