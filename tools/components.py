#!/usr/bin/env python3
"""Prints the table of docs/components.md: the core and the components, with their lines of code.

Lines are those of files that are compiled into a product, comments and empty lines included; tests, fuzzers and
benchmarks are not counted.
"""

import re
from pathlib import Path

from lint_documents import COMPONENT_HEADERS, LAYERS

ROOT = Path(__file__).resolve().parent.parent
NO_PRODUCT = re.compile(r"_(?:test|fuzz|bench)\.cpp$|_test_|test_support|fixture|/fuzz/|/test_heap\.hpp$")
FOLDERS = {
    "core": [f"src/{layer}" for layer in LAYERS if layer not in ("malloc", "index")] + ["include"],
    "index": ["src/index"],
    "store": ["src/store", "src/lmdb_file"],
    "malloc": ["src/malloc"],
    "compat": [],
    "cli": ["src/cli", "src/command_line", "src/store_tools"],
    "python": ["python/src", "python/holdfast"],
}
NEEDS = {
    "core": "fmt, xxHash and the headers of Boost",
    "index": "core",
    "store": "of the core `base/`, `persist/` and `log/`; in a heap, all of it",
    "malloc": "of the core all below `api/`",
    "compat": "core; headers alone",
    "cli": "core, index, store, CLI11, nlohmann-json; Boost.Beast for the exporter",
    "python": "core, store, nanobind",
}


def component_of(path: str) -> str:
    """Of a public header."""
    included = path.removeprefix("include/")
    return next((name for name, begins in COMPONENT_HEADERS.items() if included.startswith(begins)), "core")


def main() -> None:
    lines = dict.fromkeys(FOLDERS, 0)
    for name, folders in FOLDERS.items():
        for folder in folders:
            for file in (ROOT / folder).rglob("*"):
                path = str(file.relative_to(ROOT))
                if file.suffix in (".cpp", ".hpp", ".h", ".c", ".py") and not NO_PRODUCT.search(path):
                    owner = component_of(path) if folder == "include" else name
                    lines[owner] += file.read_text(encoding="utf-8").count("\n")
    for name, count in lines.items():
        print(f"| {name} | {count:,} | {NEEDS[name]} |")


if __name__ == "__main__":
    main()
