#!/usr/bin/env python3
"""holdfast.VectorIndex beside the files of usearch and hnswlib: prints a table of how each opens after a kill.

    compare_vectors.py [--directory DIR] [--vectors 1000000] [--dimensions 32] [--connectivity 8] [--rounds 5]

A process makes the index in a heap, and is killed after its commit. usearch has the same graph in a file; hnswlib
builds its own. Then new processes, in turns: milliseconds from the imports to the open index and from there to the
first answer, microseconds for a search of ten, and the share of the true ten that 100 searches find.
"""

import argparse
import ast
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

SEED, CENTRES = 1, 2000

PROGRAM = """
import sys, time
import numpy
name, path, dimensions, connectivity = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
queries = numpy.load(sys.argv[5])
if name == "holdfast":
    import holdfast, usearch.index
elif name == "hnswlib":
    import hnswlib
else:
    from usearch.index import Index
begin = time.perf_counter()
if name == "holdfast":
    index = holdfast.VectorIndex(holdfast.open(path, mode="r"), "vectors")
    search = lambda query: [match.key for match in index.search(query, 10)]
elif name == "hnswlib":
    index = hnswlib.Index(space="cosine", dim=dimensions)
    index.load_index(path)
    index.set_ef(64)
    search = lambda query: index.knn_query(query, 10, num_threads=1)[0][0].tolist()
else:
    index = Index(ndim=dimensions, metric="cos", dtype="f16", connectivity=connectivity, enable_key_lookups=False)
    index.view(path) if name == "usearch view" else index.load(path)
    search = lambda query: index.search(query, 10, threads=1).keys.tolist()
opened = time.perf_counter()
search(queries[0])
answered = time.perf_counter()
found = [search(query) for query in queries]
end = time.perf_counter()
print(opened - begin, answered - opened, (end - answered) / len(queries), repr(found), sep="|")
"""

BUILD = """
import os, sys, time
import numpy, holdfast
vectors = numpy.load(sys.argv[2], mmap_mode="r")
heap = holdfast.open(sys.argv[1])
index = holdfast.VectorIndex(heap, "vectors", vectors.shape[1], connectivity=int(sys.argv[3]))
index.add(range(len(vectors)), vectors)
heap.commit()
heap["vectors"]["graphs"][0]["graph"].tofile(sys.argv[4])
print("committed", flush=True)
time.sleep(3600)
"""


def make_vectors(count, dimensions):
    """Vectors in groups, as those of texts are."""
    random = numpy.random.default_rng(SEED)
    centres = random.standard_normal((CENTRES, dimensions), "f4")
    return centres[random.integers(0, CENTRES, count)] + 0.5 * random.standard_normal((count, dimensions), "f4")


def build(work, vectors, connectivity):
    """The paths by name."""
    numpy.save(f"{work}/vectors.npy", vectors)
    begin = time.perf_counter()
    maker = subprocess.Popen(
        [sys.executable, "-c", BUILD, f"{work}/heap", f"{work}/vectors.npy", str(connectivity), f"{work}/usearch"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if maker.stdout.readline() != "committed\n":
        sys.exit("the index was not made")
    print(f"holdfast: made in {time.perf_counter() - begin:.0f} s, then killed", flush=True)
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    paths = {"holdfast": f"{work}/heap", "usearch view": f"{work}/usearch", "usearch load": f"{work}/usearch"}
    try:
        import hnswlib
    except ImportError:
        print("hnswlib is not installed, and left out")
        return paths
    begin = time.perf_counter()
    index = hnswlib.Index(space="cosine", dim=vectors.shape[1])
    index.init_index(len(vectors), M=connectivity, ef_construction=128)
    index.add_items(vectors, numpy.arange(len(vectors)))
    index.save_index(f"{work}/hnswlib")
    print(f"hnswlib: made in {time.perf_counter() - begin:.0f} s", flush=True)
    return {**paths, "hnswlib load": f"{work}/hnswlib"}


def main():
    """Builds, and prints the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--directory")
    options.add_argument("--vectors", type=int, default=1_000_000)
    options.add_argument("--dimensions", type=int, default=32)
    options.add_argument("--connectivity", type=int, default=8)
    options.add_argument("--rounds", type=int, default=5)
    wanted = options.parse_args()
    print(f"{os.cpu_count()} processors, {platform.platform()}")
    print(f"{wanted.vectors} vectors of {wanted.dimensions} numbers")
    vectors = make_vectors(wanted.vectors, wanted.dimensions)
    queries = vectors[:: max(1, len(vectors) // 100)][:100] + 0.1
    plain = vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)
    true = [set(numpy.argpartition(-(plain @ query), 10)[:10].tolist()) for query in queries]
    with tempfile.TemporaryDirectory(dir=wanted.directory) as work:
        paths = build(work, vectors, wanted.connectivity)
        numpy.save(f"{work}/queries.npy", queries)
        found = {name: [] for name in paths}
        for _ in range(wanted.rounds):
            for name, path in paths.items():
                arguments = [name.split()[0] if name == "hnswlib load" else name, path]
                arguments += [str(wanted.dimensions), str(wanted.connectivity), f"{work}/queries.npy"]
                told = subprocess.run(
                    [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
                ).stdout.split("|")
                hits = sum(len(set(some) & want) for some, want in zip(ast.literal_eval(told[3]), true))
                found[name].append([*map(float, told[:3]), hits / (10 * len(true))])
    print(f"{'':14}{'open, ms':>10}{'first, ms':>11}{'search, us':>12}{'found':>8}")
    for name, rounds in found.items():
        opened, first, search, hits = (statistics.median(column) for column in zip(*rounds))
        print(f"{name:14}{1e3 * opened:10.1f}{1e3 * first:11.1f}{1e6 * search:12.0f}{hits:8.1%}")


if __name__ == "__main__":
    main()
