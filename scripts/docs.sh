#!/usr/bin/env bash
# Builds the site in build/site: the guides, the references of the public headers, the charts. A warning of a tool, a
# link that leads nowhere and a picture that is not current are failures.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
python=build/docs-environment/bin/python
prepare() {
    [[ -x $python ]] || /usr/bin/python3 -m venv build/docs-environment
    "$python" -m pip install --quiet 'mkdocs>=1.6' mkdocs-material
}
# reference FOLDER OPTION...
reference() {
    mkdir -p build/docs/reference
    printf '%s\n' "OUTPUT_DIRECTORY = build/docs/reference" "HTML_OUTPUT = $1" \
        "XML_OUTPUT = ../../docs-xml/$1" "${@:2}" |
        cat docs/site/Doxyfile - | doxygen -
}
site() {
    "$python" -m mkdocs build --strict >build/site.log 2>&1 || { grep -vE '^(INFO|DEBUG)' build/site.log; return 1; }
}
step "Debian's packages" scripts/install-dependencies.sh docs
step "mkdocs, in an environment of its own" prepare
rm -rf build/docs build/docs-xml build/site
mkdir -p build/docs-xml
step "the reference of C++" reference cpp "RECURSIVE = YES" "FILE_PATTERNS = *.hpp *.md" \
    "USE_MDFILE_AS_MAINPAGE = docs/site/cpp.md" \
    "INPUT = docs/site/cpp.md include/holdfast"
include=include/holdfast lmdb=include/lmdb/lmdb.h
step "the reference of C" reference c "OPTIMIZE_OUTPUT_FOR_C = YES" "PREDEFINED = HF_API= HF_PUBLIC= HF_OF_INT=" \
    "INPUT = $include/holdfast.h $include/transaction.h include/holdfast/index.h $lmdb"
step "the charts" python3 docs/pictures/charts.py build/docs
export NO_MKDOCS_2_WARNING=1 # a banner of the theme about its successor
step "the site" site
print_steps
say "build/site/index.html"
