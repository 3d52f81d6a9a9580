#!/usr/bin/env python3
"""Search by meaning, which survives restarts: texts become vectors, and the heap finds the nearest.

    semantic_search.py HEAP add LANGUAGE TEXT...    a vector for each text, in one transaction
    semantic_search.py HEAP find TEXT [LANGUAGE]    the nearest texts, of that language if one is given

The vectors count the groups of three letters of a text, so that the program needs no model; a model of the package
sentence-transformers takes the place of embed().
"""

import sys
import zlib

import numpy

import holdfast

DIMENSIONS = 256


def embed(text):
    """Like spellings have near vectors."""
    vector = numpy.zeros(DIMENSIONS, "f4")
    padded = f"  {text.lower()} "
    for begin in range(len(padded) - 2):
        vector[zlib.crc32(padded[begin : begin + 3].encode()) % DIMENSIONS] += 1
    return vector


def add(path, language, *texts):
    """Texts are the keys: one that is there is replaced."""
    with holdfast.open(path) as heap:
        index = holdfast.VectorIndex(heap, "texts", DIMENSIONS)
        index.add(texts, numpy.array([embed(text) for text in texts]), [{"language": language}] * len(texts))
        print(f"{len(index)} texts")


def find(path, text, language=None):
    """Beside a process that adds, too."""
    with holdfast.open(path, mode="r") as heap:
        index = holdfast.VectorIndex(heap, "texts")
        for match in index.search(embed(text), 3, {"language": language} if language else None):
            print(f"{match.distance:.2f} {match.key}")


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] not in ("add", "find"):
        sys.exit(__doc__)
    {"add": add, "find": find}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
