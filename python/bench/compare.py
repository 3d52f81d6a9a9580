#!/usr/bin/env python3
"""Holdfast in Python beside numpy.memmap, shelve, diskcache, sqlitedict and lmdb: prints two tables.

    compare.py [--directory DIR] [--mebibytes 1024] [--entries 20000] [--rounds 3]

The first table: an array of that size, opened and summed, by a new process each time, with the file in the page cache.
The second one: microseconds for each set and each get of 100 bytes under a key of text, in a process that has the store
open; sets are durable as the column says. Each figure is the median of the rounds, in which the programs take turns.
The package of each competitor is on PyPI; one that is not installed is left out, and named.
"""

import argparse
import importlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import holdfast

SUM = """
import sys, time
begin = time.perf_counter()
if sys.argv[1] == "holdfast":
    import holdfast
    loaded = time.perf_counter()
    array = holdfast.open(sys.argv[2], mode="r")["x"]
else:
    import numpy
    loaded = time.perf_counter()
    array = numpy.load(sys.argv[2], mmap_mode="r") if sys.argv[1] == "memmap" else numpy.load(sys.argv[2])
opened = time.perf_counter()
total = array.sum()
print(opened - loaded, time.perf_counter() - opened, total)
"""


class Store:
    """A mapping under test: how it is opened, and what a set promises."""

    def __init__(self, name, promise, opener, commit=None):
        self.name, self.promise, self.opener = name, promise, opener
        self.commit = commit or (lambda store: None)


class TextStore:
    """holdfast.Store with keys of text: a transaction for each call."""

    def __init__(self, path):
        self.store = holdfast.Store(path, durable=False)

    def __setitem__(self, key, value):
        self.store[key.encode()] = value

    def __getitem__(self, key):
        return self.store[key.encode()]

    def close(self):
        self.store.close()


class Lmdb:
    """lmdb as a mapping: a transaction for each call."""

    def __init__(self, path):
        self.environment = importlib.import_module("lmdb").open(path, map_size=1 << 30, sync=False)

    def __setitem__(self, key, value):
        with self.environment.begin(write=True) as transaction:
            transaction.put(key.encode(), value)

    def __getitem__(self, key):
        with self.environment.begin() as transaction:
            return transaction.get(key.encode())

    def close(self):
        self.environment.close()


def stores():
    """Those that can be imported, and the names of the others."""
    missing = []

    def module(name):
        try:
            return importlib.import_module(name)
        except ImportError:
            missing.append(name)

    found = [
        Store("holdfast commit", "with commit()", holdfast.open, lambda heap: heap.commit()),
        Store(
            "holdfast atomic", "crash of the process",
            lambda path: holdfast.open(path, durability="atomic", accept_process_crash_only=True),
        ),
        Store("holdfast.Store", "crash of the process", TextStore),
        Store("shelve", "with close()", module("shelve").open),
    ]  # fmt: skip
    if module("lmdb"):
        found.append(Store("lmdb (sync=False)", "crash of the process", Lmdb))
    if diskcache := module("diskcache"):
        found.append(Store("diskcache", "crash of the process", diskcache.Cache))
    if sqlitedict := module("sqlitedict"):
        found.append(Store("sqlitedict", "with commit()", sqlitedict.SqliteDict, lambda store: store.commit()))
    return found, missing


def median(values):
    """Of a list."""
    return statistics.median(values)


def measure_arrays(directory, mebibytes, rounds):
    """The first table."""
    array = numpy.random.default_rng(1).random(mebibytes << 17)
    expected = array.sum()
    numpy.save(directory + "/x.npy", array)
    with holdfast.open(directory + "/x.hf") as heap:
        heap["x"] = array
    del array
    times = {"holdfast": [], "memmap": [], "numpy.load": []}
    for _ in range(rounds + 1):  # the first round fills the page cache
        for name, figures in times.items():
            path = directory + ("/x.hf" if name == "holdfast" else "/x.npy")
            told = subprocess.run([sys.executable, "-c", SUM, name, path], capture_output=True, text=True, check=True)
            opened, summed, total = map(float, told.stdout.split())
            assert abs(total - expected) < 1e-6 * abs(expected)
            figures.append((opened, summed))
    print(f"An array of {mebibytes} MiB:\n")
    print(f"{'':20} {'open, ms':>10} {'sum, ms':>10} {'both / memmap':>14}")
    both = {name: median([sum(each) for each in figures[1:]]) for name, figures in times.items()}
    for name, figures in times.items():
        opened, summed = (1000 * median([each[i] for each in figures[1:]]) for i in (0, 1))
        print(f"{name:20} {opened:10.2f} {summed:10.1f} {both[name] / both['memmap']:14.2f}")


def measure_stores(directory, entries, rounds):
    """The second table."""
    found, missing = stores()
    keys = [f"key {i * 7919 % entries}" for i in range(entries)]
    value = bytes(range(100))
    times = {store.name: ([], []) for store in found}
    for turn in range(rounds):
        for store in found:
            path = f"{directory}/{turn}-{store.name.replace(' ', '-')}"
            opened = store.opener(path)
            begin = time.perf_counter()
            for key in keys:
                opened[key] = value
            store.commit(opened)
            middle = time.perf_counter()
            for key in keys:
                if opened[key] != value:
                    raise ValueError(f"{store.name} has lost {key}")
            end = time.perf_counter()
            opened.close()
            times[store.name][0].append((middle - begin) / entries * 1e6)
            times[store.name][1].append((end - middle) / entries * 1e6)
    print(f"\n{entries} entries of 100 bytes:\n")
    print(f"{'':20} {'set, us':>10} {'get, us':>10}   a set is durable")
    for store in found:
        sets, gets = times[store.name]
        print(f"{store.name:20} {median(sets):10.2f} {median(gets):10.2f}   {store.promise}")
    if missing:
        print(f"not installed: {', '.join(missing)}")


def main():
    """Both tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--directory", default=None)
    options.add_argument("--mebibytes", type=int, default=1024)
    options.add_argument("--entries", type=int, default=20000)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    directory = tempfile.mkdtemp(dir=chosen.directory)
    try:
        print(f"Python {platform.python_version()}, numpy {numpy.__version__}, {os.cpu_count()} processors")
        measure_arrays(directory, chosen.mebibytes, chosen.rounds)
        measure_stores(directory, chosen.entries, chosen.rounds)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
