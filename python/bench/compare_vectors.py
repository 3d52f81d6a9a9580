#!/usr/bin/env python3
"""holdfast.VectorIndex beside the files of others: prints a table of how each opens after a kill, searches and grows.

    compare_vectors.py [--directory DIR] [--vectors 1000000] [--dimensions 32] [--connectivity 8] [--rounds 3]
                       [--only NAME...] [--keep DIR]

For each a process makes the index, and is killed when it is durable. usearch has the graph of the heap in a file;
hnswlib, FAISS (HNSW), LanceDB (IVF and HNSW) and sqlite-vec (which compares all) make their own. Then new processes, in
turns: milliseconds from the imports to the open index, and from there to the first answer; microseconds for a search of
ten, and the share of the true ten that 100 searches find. At the end, where the files can grow: microseconds for a
vector that is durable alone, and in a thousand, by one process. What is not installed is left out. With --keep the
indexes stay in the directory, and a later run with the same vectors opens those that are there.
"""

import argparse
import importlib.util
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

SEED, CENTRES, EFFORT, BUILD_EFFORT = 1, 2000, 64, 128
ONE_BY_ONE, AT_ONCE, TIMES = 200, 1000, 5  # what is added at the end


class Holdfast:
    """The index in a heap."""

    package, grows = "usearch", True

    def __init__(self, path, dimensions, connectivity):
        self.path, self.dimensions, self.connectivity = path, dimensions, connectivity

    def make(self, vectors):
        import holdfast

        self.heap = holdfast.open(self.path)
        self.index = holdfast.VectorIndex(self.heap, "vectors", self.dimensions, connectivity=self.connectivity)
        self.index.add(range(len(vectors)), vectors)
        self.heap.commit()
        self.heap["vectors"]["graphs"][0]["graph"].tofile(self.path + ".usearch")

    def open(self):
        import holdfast

        self.index = holdfast.VectorIndex(holdfast.open(self.path, mode="r"), "vectors")

    def search(self, query):
        return [match.key for match in self.index.search(query, 10, effort=EFFORT)]

    def grow(self):
        import holdfast

        self.heap = holdfast.open(self.path)
        self.index = holdfast.VectorIndex(self.heap, "vectors")

    def add(self, keys, vectors):
        with self.heap.transaction():
            self.index.add(keys, vectors)


class View(Holdfast):
    """The graph of the heap in a file, which usearch reads where it lies."""

    package, grows = "usearch", False

    def make(self, vectors):
        os.stat(self.path)  # Holdfast has made it

    def empty(self):
        from usearch.index import Index

        self.index = Index(
            ndim=self.dimensions,
            metric="cos",
            dtype="f16",
            connectivity=self.connectivity,
            expansion_search=EFFORT,
            enable_key_lookups=False,
        )

    def open(self):
        self.empty()
        self.index.view(self.path)

    def search(self, query):
        return self.index.search(query, 10, threads=1).keys.tolist()


class Load(View):
    """The file of `View`, loaded."""

    def open(self):
        self.empty()
        self.index.load(self.path)


class Hnswlib(Holdfast):
    """A file that is loaded."""

    package, grows = "hnswlib", False

    def make(self, vectors):
        import hnswlib

        index = hnswlib.Index(space="cosine", dim=self.dimensions)
        index.init_index(len(vectors), M=self.connectivity, ef_construction=BUILD_EFFORT)
        index.add_items(vectors, numpy.arange(len(vectors)))
        index.save_index(self.path)

    def open(self):
        import hnswlib

        self.index = hnswlib.Index(space="cosine", dim=self.dimensions)
        self.index.load_index(self.path)
        self.index.set_ef(EFFORT)

    def search(self, query):
        return self.index.knn_query(query, 10, num_threads=1)[0][0].tolist()


class Faiss(Holdfast):
    """A file that is loaded; with the flag for mapped files, which graphs do not heed."""

    package, grows = "faiss", False

    def make(self, vectors):
        import faiss

        index = faiss.IndexHNSWFlat(self.dimensions, self.connectivity, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = BUILD_EFFORT
        index.add(of_length_one(vectors))
        faiss.write_index(index, self.path)

    def open(self):
        import faiss

        self.index = faiss.read_index(self.path, faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        self.index.hnsw.efSearch = EFFORT
        faiss.omp_set_num_threads(1)

    def search(self, query):
        return self.index.search(of_length_one(query[None]), 10)[1][0].tolist()


class Lance(Holdfast):
    """A database of columns, with an index of its own."""

    package = "lancedb"

    def table(self, vectors=None):
        import lancedb
        import pyarrow

        database = lancedb.connect(self.path)
        if vectors is None:
            return database.open_table("vectors")
        flat = pyarrow.array(numpy.ascontiguousarray(vectors, "f4").ravel())
        columns = {"vector": pyarrow.FixedSizeListArray.from_arrays(flat, self.dimensions)}
        columns["key"] = pyarrow.array(numpy.arange(len(vectors)))
        return database.create_table("vectors", pyarrow.table(columns))

    def make(self, vectors):
        from lancedb.index import HnswSq

        settings = HnswSq(distance_type="cosine", m=self.connectivity, ef_construction=BUILD_EFFORT)
        self.table(vectors).create_index("vector", config=settings)

    def open(self):
        self.index = self.table()

    def search(self, query):
        found = self.index.search(query).distance_type("cosine").ef(EFFORT).limit(10)
        return found.select(["key", "_distance"]).to_arrow()["key"].to_pylist()

    def grow(self):
        self.open()

    def add(self, keys, vectors):
        self.index.add([{"vector": vector, "key": key} for key, vector in zip(keys, vectors)])


class SqliteVec(Holdfast):
    """Rows of SQLite, all of which each search compares."""

    package = "sqlite_vec"

    def connect(self):
        import sqlite3

        import sqlite_vec

        self.database = sqlite3.connect(self.path)
        self.database.enable_load_extension(True)
        sqlite_vec.load(self.database)

    def make(self, vectors):
        self.connect()
        self.database.execute(
            f"create virtual table vectors using vec0(v float[{self.dimensions}] distance_metric=cosine)"
        )
        self.add(range(len(vectors)), vectors)

    def open(self):
        self.connect()

    def search(self, query):
        asked = "select rowid from vectors where v match ? and k = 10 order by distance"
        return [row[0] for row in self.database.execute(asked, (query.tobytes(),))]

    def grow(self):
        self.connect()

    def add(self, keys, vectors):
        rows = ((key, vector.tobytes()) for key, vector in zip(keys, vectors))
        with self.database:
            self.database.executemany("insert into vectors(rowid, v) values (?, ?)", rows)


CONTESTANTS = {
    "holdfast": (Holdfast, "heap"),
    "usearch view": (View, "heap.usearch"),
    "usearch load": (Load, "heap.usearch"),
    "hnswlib load": (Hnswlib, "hnswlib"),
    "FAISS read": (Faiss, "faiss"),
    "LanceDB": (Lance, "lance"),
    "sqlite-vec": (SqliteVec, "sqlite"),
}


def of_length_one(vectors):
    return numpy.ascontiguousarray(vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True), "f4")


def make_vectors(count, dimensions):
    """Vectors in groups, as those of texts are."""
    random = numpy.random.default_rng(SEED)
    centres = random.standard_normal((CENTRES, dimensions), "f4")
    return centres[random.integers(0, CENTRES, count)] + 0.5 * random.standard_normal((count, dimensions), "f4")


def make(contestant, work):
    """In a process that is killed."""
    begin = time.perf_counter()
    contestant.make(numpy.load(f"{work}/vectors.npy", mmap_mode="r"))
    print(json.dumps([time.perf_counter() - begin]), flush=True)
    time.sleep(3600)


def look(contestant, work):
    """In a new process: opens and searches."""
    queries = numpy.load(f"{work}/queries.npy")
    if contestant.package != "lancedb":  # which takes seconds, and which others do not have
        importlib.import_module("holdfast")
    importlib.import_module(contestant.package)
    begin = time.perf_counter()
    contestant.open()
    opened = time.perf_counter()
    contestant.search(queries[0])
    answered = time.perf_counter()
    found = [contestant.search(query) for query in queries]
    end = time.perf_counter()
    print(json.dumps([opened - begin, answered - opened, (end - answered) / len(queries), found]), flush=True)


def grow(contestant, work):
    """Adds."""
    vectors = numpy.load(f"{work}/vectors.npy", mmap_mode="r")
    key = len(vectors)
    contestant.grow()
    contestant.add([key], vectors[:1])
    begin = time.perf_counter()
    for place in range(ONE_BY_ONE):
        contestant.add([key + 1 + place], vectors[place : place + 1])
    between = time.perf_counter()
    for place in range(TIMES):
        first = key + 1 + ONE_BY_ONE + place * AT_ONCE
        contestant.add(range(first, first + AT_ONCE), numpy.asarray(vectors[place * AT_ONCE : (place + 1) * AT_ONCE]))
    end = time.perf_counter()
    print(json.dumps([(between - begin) / ONE_BY_ONE, (end - between) / (TIMES * AT_ONCE)]), flush=True)


def told_by(step, name, wanted, work):
    """What a process for the step prints."""
    arguments = [step, name, work, str(wanted.dimensions), str(wanted.connectivity)]
    process = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    process.send_signal(signal.SIGKILL) if step == "make" else None
    process.communicate()
    if not line:
        sys.exit(f"{name}: {step} failed")
    return json.loads(line)


def made_once(name, wanted, work):
    """How long it took to make, now or in an earlier run."""
    note = f"{work}/{name}.made"
    if not os.path.exists(note):
        seconds = told_by("make", name, wanted, work)[0]
        with open(note, "w") as file:
            file.write(str(seconds))
    with open(note) as file:
        return float(file.read())


def compare(wanted, work):
    """Prints the table."""
    vectors = make_vectors(wanted.vectors, wanted.dimensions)
    queries = vectors[:: max(1, len(vectors) // 100)][:100] + 0.1
    plain, asked = of_length_one(vectors), of_length_one(queries)
    true = [set(numpy.argpartition(-(plain @ query), 10)[:10].tolist()) for query in asked]
    del plain
    numpy.save(f"{work}/vectors.npy", vectors)
    numpy.save(f"{work}/queries.npy", queries)
    names = [name for name, (kind, _) in CONTESTANTS.items() if importlib.util.find_spec(kind.package)]
    names = [name for name in names if not wanted.only or name in wanted.only]
    print(f"not installed, or not wanted: {sorted(set(CONTESTANTS) - set(names))}", flush=True)
    made = {name: made_once(name, wanted, work) for name in names}
    found = {name: [] for name in names}
    for _ in range(wanted.rounds):
        for name in names:
            *times, answers = told_by("look", name, wanted, work)
            hits = sum(len(set(some) & want) for some, want in zip(answers, true))
            found[name].append([*times, hits / (10 * len(true))])
    titles = ("made, s", "open, ms", "first, ms", "search, us", "found", "add 1, us", "of 1000, us")
    print(f"{'':14}" + "".join(f"{title:>13}" for title in titles))
    for name, rounds in found.items():
        opened, first, search, hits = (statistics.median(column) for column in zip(*rounds))
        line = f"{name:14}{made[name]:13.0f}{1e3 * opened:13.1f}{1e3 * first:13.1f}{1e6 * search:13.0f}{hits:13.1%}"
        if CONTESTANTS[name][0].grows:
            line += "".join(f"{1e6 * each:13.1f}" for each in told_by("grow", name, wanted, work))
        print(line, flush=True)


def main():
    """Compares, or is one of the processes."""
    if len(sys.argv) > 1 and sys.argv[1] in ("make", "look", "grow"):
        step, name, work, dimensions, connectivity = sys.argv[1:]
        kind, file = CONTESTANTS[name]
        contestant = kind(f"{work}/{file}", int(dimensions), int(connectivity))
        {"make": make, "look": look, "grow": grow}[step](contestant, work)
        return
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--directory")
    options.add_argument("--vectors", type=int, default=1_000_000)
    options.add_argument("--dimensions", type=int, default=32)
    options.add_argument("--connectivity", type=int, default=8)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", nargs="*", choices=list(CONTESTANTS))
    options.add_argument("--keep", metavar="DIR")
    wanted = options.parse_args()
    print(f"{os.cpu_count()} processors, {platform.platform()}")
    print(f"{wanted.vectors} vectors of {wanted.dimensions} numbers")
    if wanted.keep:
        os.makedirs(wanted.keep, exist_ok=True)
        compare(wanted, wanted.keep)
        return
    with tempfile.TemporaryDirectory(dir=wanted.directory) as work:
        compare(wanted, work)


if __name__ == "__main__":
    main()
