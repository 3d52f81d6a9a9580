#!/usr/bin/env bash
# Formats all C and C++ files with the pinned clang-format; with --check only says which are not formatted.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
if ! command -v clang-format-16 >/dev/null; then
    echo "format: NOT TESTED HERE: clang-format-16 is not installed (make lint installs it)" >&2
    exit $([[ ${1:-} == --check ]] && echo 0 || echo 1)
fi
arguments=(-i)
if [[ ${1:-} == --check ]]; then
    arguments=(--dry-run --Werror)
fi
find src tests bench examples tools python packaging -type f \
    \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.c' \) -print0 |
    xargs -0 -r -n 16 -P "$jobs" clang-format-16 "${arguments[@]}"
