#!/usr/bin/env python3
"""An inverted index: which documents have a word, and how often. Run it again, and it knows what it has read.

    inverted_index.py HEAP add FILE...      index files; those that have not changed are skipped
    inverted_index.py HEAP find WORD...     documents that have all words, by the number of hits
"""

import hashlib
import pathlib
import re
import sys
from collections import Counter

import holdfast


def add(heap, files):
    """Indexes files, each in a transaction: a crash leaves whole documents."""
    words, documents = heap.setdefault("words", {}), heap.setdefault("documents", {})
    for file in map(pathlib.Path, files):
        text = file.read_text(errors="replace")
        digest = hashlib.sha256(text.encode()).hexdigest()
        name = file.name
        if name in documents and documents[name]["digest"] == digest:
            continue
        counts = Counter(re.findall(r"[a-z0-9]+", text.lower()))
        with heap.transaction(durable=False):
            for word in documents.get(name, {"words": []})["words"]:
                del words[word][name]
            for word, count in counts.items():
                words.setdefault(word, {})[name] = count
            documents[name] = {"digest": digest, "words": list(counts)}
    heap.commit()
    print(f"{len(documents)} documents, {len(words)} words")


def find(heap, wanted):
    """Prints the documents that have all words."""
    found = [heap.get("words", {}).get(word.lower(), {}) for word in wanted]
    names = set.intersection(*(set(each) for each in found)) if found else set()
    for name in sorted(names, key=lambda name: (-sum(each[name] for each in found), name)):
        print(sum(each[name] for each in found), name)


def main(path, command, *arguments):
    """One run of the program."""
    if command == "add":
        with holdfast.open(path) as heap:
            add(heap, arguments)
    else:
        with holdfast.open(path, mode="r") as heap:
            find(heap, arguments)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in ("add", "find"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
