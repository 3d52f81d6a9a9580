#!/usr/bin/env bash
# site_test.sh SOURCE: builds the site, looks for what a reader looks for, and shows that a link that leads nowhere is
# noticed.
set -euo pipefail
source=$1
fail() { echo "site_test: $*" >&2; exit 1; }
not_tested() { echo "NOT TESTED HERE: $*"; exit 0; }
command -v doxygen >/dev/null || not_tested "doxygen is not installed"
/usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null || not_tested "python3-venv is not installed"
cd "$source"
scripts/docs.sh
expect() { grep -qF "$2" "build/site/$1" || fail "$1 has no '$2'"; }
expect index.html "In Python"
expect choosing.html "Questions to ask"
expect porting-lmdb.html "The C++ face"
expect indexes.html "What it promises"
expect charts.html "charts/growth.svg"
expect reference/cpp/classholdfast_1_1manager.html "commit"
expect reference/c/holdfast_8h.html "hf_open_or_create"
expect reference/cpp/index.html "classholdfast_1_1manager.html"
expect reference-cpp.html "classholdfast_1_1manager.html"
expect reference-python.html "Heap.commit_later()"
for name in 'reference/cpp/classholdfast_1_1manager.html#.' 'reference/c/holdfast_8h.html#.' \
    'reference-python.html#heapcommit'; do
    grep -q "\"location\": \"$name" build/site/search/search_index.json || fail "the search does not lead to $name"
done
expect python.html "site.css"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/build"
cp -r docs mkdocs.yml README.md CHANGELOG.md CONTRIBUTING.md "$copy"
for file in src/README.md examples/README.md packaging/README.md; do
    install -D "$file" "$copy/$file"
done
cp -r build/docs build/docs-xml "$copy/build"
install -D -t "$copy/python/holdfast" python/holdfast/*.py
rm -rf "$copy/build/docs/reference/cpp/search" # thousands of files that no page of ours leads to
echo 'See [this](limits.md#nothing) and [that](../src/none.md).' >>"$copy/docs/choosing.md"
if (cd "$copy" && "$source/build/docs-environment/bin/python" -m mkdocs build --strict) >"$copy/log" 2>&1; then
    fail "links that lead nowhere were not noticed"
fi
for link in 'limits.md#nothing' '../src/none.md'; do
    grep -qF "$link" "$copy/log" || { cat "$copy/log"; fail "the link to $link was not noticed"; }
done
echo "site_test: the site is whole, and broken links are noticed"
