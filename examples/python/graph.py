#!/usr/bin/env python3
"""A graph as two arrays in the heap (compressed sparse rows), searched without loading it.

    graph.py HEAP make NODES DEGREE    a random graph, the same one for the same numbers
    graph.py HEAP search NODE          how many nodes are how far away (breadth-first search)
"""

import sys
import time

import numpy

import holdfast


def make(heap, nodes, degree):
    """Writes the graph straight into the heap's arrays."""
    heap.pop("graph", None)
    chance = numpy.random.default_rng(42)
    heap["graph"] = {"begin": numpy.zeros(nodes + 1, "i8"), "target": numpy.zeros(nodes * degree, "i4")}
    begin, target = heap["graph"]["begin"], heap["graph"]["target"]
    target[:] = chance.integers(0, nodes, nodes * degree)
    begin[:] = numpy.arange(nodes + 1) * degree
    heap.commit()
    print(f"{nodes} nodes, {target.size} edges")


def search(heap, start):
    """Level by level; the arrays are those in the heap."""
    begin, target = heap["graph"]["begin"], heap["graph"]["target"]
    seen = numpy.zeros(begin.size - 1, bool)
    front = numpy.array([start])
    seen[front] = True
    distance = 0
    while front.size:
        print(f"distance {distance}: {front.size} nodes")
        counts = begin[front + 1] - begin[front]
        edges = numpy.repeat(begin[front] - numpy.concatenate([[0], counts.cumsum()[:-1]]), counts)
        reached = numpy.unique(target[edges + numpy.arange(counts.sum())])
        front = reached[~seen[reached]]
        seen[front] = True
        distance += 1


def main(path, command, *arguments):
    """One run of the program."""
    opened = time.perf_counter()
    with holdfast.open(path, mode="a" if command == "make" else "r") as heap:
        if command == "make":
            make(heap, int(arguments[0]), int(arguments[1]))
        else:
            print(f"opened in {1000 * (time.perf_counter() - opened):.1f} ms")
            search(heap, int(arguments[0]))


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] not in ("make", "search"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
